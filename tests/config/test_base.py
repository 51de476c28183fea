"""Settings: frozen, strict, overridable, and clear about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from spotchange.config.base import Settings, apply_override
from spotchange.errors import ConfigError


class Stage(Settings):
    steps: int = Field(default=10, ge=1)
    pairs_per_step: int = 4


class Run(Settings):
    name: str
    stage: Stage = Stage()
    extra: Stage | None = None


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Stage().steps = 3  # type: ignore[misc]


def test_yaml_and_overrides(tmp_path: Path) -> None:
    recipe = tmp_path / "run.yaml"
    recipe.write_text("name: toy\nstage: {steps: 5}\n")
    run = Run.from_yaml(recipe, ["stage.steps=7", "extra.pairs_per_step=2"])
    assert (run.stage.steps, run.stage.pairs_per_step, run.extra) == (7, 4, Stage(pairs_per_step=2))


def test_saved_settings_give_the_same_settings(tmp_path: Path) -> None:
    run = Run(name="toy", stage=Stage(steps=3))
    run.save(tmp_path / "recipe.yaml")
    assert Run.from_yaml(tmp_path / "recipe.yaml") == run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nstage: {step: 5}", "unknown setting 'stage.step', did you mean 'steps'?"),
        ("name: a\nextra: {pair_per_step: 5}", "did you mean 'pairs_per_step'?"),
        ("nmae: a", "did you mean 'name'?"),
        ("name: a\nstage: {steps: 0}", "stage.steps: Input should be greater than or equal to 1"),
        ("- a\n- b", "must hold settings"),
        ("name: [", "not valid YAML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    recipe = tmp_path / "run.yaml"
    recipe.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Run.from_yaml(recipe)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_missing_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read "):
        Run.from_yaml(tmp_path / "none.yaml")


@pytest.mark.parametrize("override", ["steps", "=3", "a=[1"])
def test_malformed_overrides(override: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        apply_override({}, override)


@given(st.text(max_size=40))
def test_any_override_is_applied_or_refused(text: str) -> None:
    values: dict[str, object] = {}
    try:
        apply_override(values, text)
    except ConfigError:
        assert values == {}
    else:
        assert len(values) == 1
