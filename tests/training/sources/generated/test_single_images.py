"""Single scenes for two towers: families that only shapes, materials and the camera tell apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from spotchange.config.recipes import find_recipe
from spotchange.config.scenes import SceneSettings
from spotchange.config.training import Recipe
from spotchange.errors import ConfigError
from spotchange.scene import COLOR, MATERIAL, SHAPE, SIZE
from spotchange.scenes.sampler import World
from spotchange.training.sources.build import run_context, training_batches
from spotchange.training.sources.generated.single_images import families
from spotchange.training.start import start_model


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


def test_images_are_shown_again_with_other_texts() -> None:
    changes = ["stage.pairs_per_step=8", "stage.objective.alike=2", "stage.objective.showings=2"]
    recipe = Recipe.from_yaml(find_recipe("smoke/image-text"), changes)
    run = run_context(recipe, start_model(recipe), device=torch.device("cpu"))
    batches = training_batches(recipe, run)
    texts: dict[int, set[tuple[int, ...]]] = {}
    images: dict[int, Tensor] = {}
    for _ in range(6):
        batch = batches.next_batch()
        ids = batch.scene_id.tolist()
        assert len(set(ids)) == 8
        assert [scene // 2 for scene in ids[::2]] == [scene // 2 for scene in ids[1::2]]  # families stay together
        for row, scene in enumerate(ids):
            assert torch.equal(images.setdefault(scene, batch.before[row]), batch.before[row])
            texts.setdefault(scene, set()).add(tuple(batch.caption_ids[row].tolist()))
    assert batches.state_dict()["next_scene"] == 4 + 5 * 2  # four families at first, then two new ones a step
    assert max(map(len, texts.values())) > 1


def test_showings_must_divide_the_scenes_of_a_step() -> None:
    recipe = Recipe.from_yaml(find_recipe("smoke/image-text"), ["stage.objective.showings=3"])
    run = run_context(recipe, start_model(recipe), device=torch.device("cpu"))
    with pytest.raises(ConfigError, match="not a multiple of 3 showings"):
        training_batches(recipe, run)
