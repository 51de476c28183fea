"""On from the shipped model of photos: `everyday/longer`."""

from __future__ import annotations

import torch

from spotchange.config.recipes import find_recipe
from spotchange.config.training import Recipe
from spotchange.everyday.library import bundled_library, read_library
from spotchange.everyday.stream import EverydayStream
from spotchange.models.weights.bundled import everyday_folder
from spotchange.training.objectives.everyday import EverydayObjective
from spotchange.training.start import start_model


def test_it_begins_with_all_that_the_shipped_model_knows() -> None:
    recipe = Recipe.from_yaml(find_recipe("everyday/longer"))
    start = start_model(recipe)
    assert start.folder == everyday_folder()
    assert not start.fresh
    mean, std = start.preprocessor.mean, start.preprocessor.std
    objective = EverydayObjective(start.model, recipe.stage.objective, mean=mean, std=std)
    assert objective.patch_nouns is None  # a head that ships with no model would begin at chance
    library = read_library(bundled_library(), split="held-out", most_objects=40, most_backgrounds=6)
    batch = EverydayStream(library, pairs=8, side=288, grid=(18, 18), seed=5).next_batch()
    with torch.no_grad():
        losses = objective.eval()(batch)
    assert losses["type_accuracy"] >= 0.75
    assert "patches" not in losses
