"""Recipes are found by name from anywhere, and settings explain themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.config.explain import explain
from spotchange.config.recipes import RECIPES, find_recipe, list_recipes
from spotchange.config.training import Recipe
from spotchange.errors import ConfigError


def test_names_files_and_old_paths_lead_to_the_same_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = RECIPES / "finetune.yaml"
    assert find_recipe("finetune") == find_recipe("recipes/finetune.yaml") == find_recipe("finetune.yaml") == expected
    assert find_recipe("smoke", within="ablations") == RECIPES / "ablations" / "smoke.yaml"
    Path("finetune").write_text("name: mine\n")
    assert find_recipe("finetune") == Path("finetune")


def test_recipes_of_a_package_behind_a_link_are_found(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(RECIPES.parents[1])
    asked = "from spotchange.config.recipes import find_recipe; print(find_recipe('finetune'))"
    found = subprocess.run(
        [sys.executable, "-c", asked], env={"PYTHONPATH": str(tmp_path / "linked")}, capture_output=True, text=True
    )
    assert found.stdout.strip() == str(RECIPES / "finetune.yaml"), found.stderr


@pytest.mark.parametrize("name", ["../config/base", "finetun", "nothing/at/all", ""])
def test_an_unknown_recipe_is_refused_with_near_names(name: str) -> None:
    with pytest.raises(ConfigError, match="no recipe") as caught:
        find_recipe(name)
    if name == "finetun":
        assert "finetune" in str(caught.value.hint)


def test_the_list_introduces_every_recipe() -> None:
    listed = list_recipes()
    assert {"finetune", "clip4idc/adapt", "ablations/smoke"} <= listed.keys()
    assert [name for name, introduction in listed.items() if not introduction] == []


def test_a_setting_is_explained_by_its_docstring_type_and_default() -> None:
    (steps,) = explain(Recipe, "stage.steps")
    assert "int" in steps.type
    assert steps.default == "(required)" or steps.default.isdigit()
    assert steps.meaning
    assert steps.example.startswith("--set stage.steps=")


def test_a_section_explains_everything_in_it() -> None:
    keys = [each.key for each in explain(Recipe, "schedule")]
    assert keys[0] == "schedule"
    assert {"schedule.shape", "schedule.warmup"} <= set(keys)
    everything = [each.key for each in explain(Recipe, "")]
    assert set(Recipe.model_fields) == set(everything)


def test_a_misspelt_setting_is_corrected() -> None:
    with pytest.raises(ConfigError, match=r"'stage.stepz', did you mean 'steps'"):
        explain(Recipe, "stage.stepz")


def test_every_setting_that_recipes_can_name_has_a_meaning() -> None:
    silent = [
        each.key
        for top in Recipe.model_fields
        for each in explain(Recipe, top)
        if not each.meaning and not each.key.endswith(".kind")
    ]
    assert silent == []


def test_the_commands_print_names_and_meanings() -> None:
    listed = CliRunner().invoke(app, ["config", "list"])
    assert listed.exit_code == 0
    assert "finetune" in listed.output
    explained = CliRunner().invoke(app, ["config", "explain", "schedule.warmup"])
    assert explained.exit_code == 0
    assert "--set schedule.warmup=" in explained.output


def test_everyday_training_takes_one_change_a_pair() -> None:
    recipe = find_recipe("everyday/longer")
    assert Recipe.from_yaml(recipe, ["data.changes=1"]) == Recipe.from_yaml(recipe)
    with pytest.raises(ConfigError, match=r"data\.changes: training takes pairs with one change"):
        Recipe.from_yaml(recipe, ["data.changes=2"])
