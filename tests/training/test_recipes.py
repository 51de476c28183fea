"""Every recipe that ships is valid and says how to run it."""

from __future__ import annotations

import pytest
import yaml

from spotchange.config.recipes import RECIPES as FOLDER
from spotchange.config.training import Recipe

RECIPES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yaml"))


def is_training_recipe(name: str) -> bool:
    return "stage" in yaml.safe_load((FOLDER / name).read_text())


@pytest.mark.parametrize("name", [name for name in RECIPES if is_training_recipe(name)])
def test_recipe_is_valid_and_opens_with_its_command(name: str) -> None:
    recipe = Recipe.from_yaml(FOLDER / name)
    first = (FOLDER / name).read_text().splitlines()[0]
    assert first.startswith(f"# spotchange train {name.removesuffix('.yaml')} ")
    assert Recipe.from_mapping(yaml.safe_load(recipe.to_yaml()), source="again") == recipe


@pytest.mark.parametrize("name", [name for name in RECIPES if is_training_recipe(name)])
def test_recipes_that_build_on_another_name_the_folder_it_writes(name: str) -> None:
    start = Recipe.from_yaml(FOLDER / name).stage.start_from
    if start is None or not start.startswith("out/"):
        return
    earlier = start.removeprefix("out/").removesuffix("/best").removesuffix("/last")
    assert f"{earlier}.yaml" in RECIPES


def test_there_are_recipes_for_every_stage_of_the_papers() -> None:
    for data in ("", "spot-the-diff-", "image-editing-request-", "scenes-"):
        assert {f"clip4idc/{data}adapt.yaml", f"clip4idc/{data}caption.yaml"} <= set(RECIPES)


def test_data_may_be_a_path_on_the_command_line() -> None:
    recipe = Recipe.from_yaml(FOLDER / "finetune.yaml", ["data=data/toy"])
    assert recipe.data.kind == "dataset"
    assert recipe.data.path == "data/toy"
