"""Single scenes for two towers: families that only shapes and materials tell apart."""

from __future__ import annotations

import numpy as np

from spotchange.config.scenes import SceneSettings
from spotchange.scene import COLOR, MATERIAL, SHAPE, SIZE
from spotchange.scenes.sampler import World
from spotchange.training.sources.generated.single_images import families


def test_a_family_differs_in_shapes_and_materials_alone() -> None:
    scenes = World(SceneSettings(), seed=3).scenes(np.arange(12))
    made = families(scenes, 4)
    assert made.scene_id.tolist() == list(range(12))
    for row in range(12):
        first = row - row % 4
        assert np.array_equal(made.placement[row], scenes.placement[first])
        assert np.array_equal(made.camera[row], scenes.camera[first])
        for attribute in (COLOR, SIZE):
            assert np.array_equal(made.attributes[row, 0, :, attribute], scenes.attributes[first, 0, :, attribute])
        count = int(scenes.count[first, 0])
        assert (made.attributes[row, 0, :count, SHAPE] >= 0).all()
        assert (made.attributes[row, 0, count:, SHAPE] == -1).all()
    shapes = made.attributes[:, 0, :, SHAPE].reshape(3, 4, -1)
    assert all(len(np.unique(each, axis=0)) == 4 for each in shapes)
    materials = made.attributes[:, 0, :, MATERIAL].reshape(3, 4, -1)
    assert all(len(np.unique(each, axis=0)) > 1 for each in materials)
    own = np.minimum(scenes.count[:, 0], scenes.count[np.arange(12) // 4 * 4, 0])
    for row in range(12):  # a scene's own shapes, as far as it has objects
        assert np.array_equal(made.attributes[row, 0, : own[row], SHAPE], scenes.attributes[row, 0, : own[row], SHAPE])


def test_families_of_one_are_the_scenes_themselves() -> None:
    scenes = World(SceneSettings(), seed=3).scenes(np.arange(2))
    assert families(scenes, 1) is scenes
