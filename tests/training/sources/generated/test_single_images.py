"""Single scenes for two towers: families that only shapes, materials and the camera tell apart."""

from __future__ import annotations

import numpy as np

from spotchange.config.scenes import SceneSettings
from spotchange.scene import COLOR, MATERIAL, SHAPE, SIZE
from spotchange.scenes.sampler import World
from spotchange.training.sources.generated.single_images import families


def test_a_family_differs_in_shapes_and_materials_alone() -> None:
    scenes = World(SceneSettings(), seed=3).scenes(np.arange(5, 8))
    made = families(scenes, 4)
    assert made.scene_id.tolist() == list(range(20, 32))
    for row in range(12):
        first, donor = row // 4, (row // 4 + row % 4) % 3
        assert np.array_equal(made.placement[row], scenes.placement[first])
        assert np.array_equal(made.camera[row], scenes.camera[first])
        for attribute in (COLOR, SIZE):
            assert np.array_equal(made.attributes[row, 0, :, attribute], scenes.attributes[first, 0, :, attribute])
        count = int(scenes.count[first, 0])
        assert (made.attributes[row, 0, :count, SHAPE] >= 0).all()
        assert (made.attributes[row, 0, count:, SHAPE] == -1).all()
        both = min(count, int(scenes.count[donor, 0]))
        for attribute in (SHAPE, MATERIAL):
            expected = scenes.attributes[donor, 0, :both, attribute]
            assert np.array_equal(made.attributes[row, 0, :both, attribute], expected)
    assert np.array_equal(made.attributes[::4, 0], scenes.attributes[:, 0])  # the first of a family is the scene itself


def test_families_of_one_are_the_scenes_themselves() -> None:
    scenes = World(SceneSettings(), seed=3).scenes(np.arange(2))
    assert families(scenes, 1) is scenes
