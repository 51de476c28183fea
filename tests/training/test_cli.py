"""`spotchange train` and `spotchange ablate`: mistakes are one line and exit code 2, results go to stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from spotchange.cli.ablate import ablate
from spotchange.cli.train import train
from spotchange.config.recipes import RECIPES
from spotchange.errors import SpotchangeError


def invoke(command, *arguments: str):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["stage.stepz=3"], "did you mean 'steps'"),
        (["stage.steps=none"], "stage.steps"),
        (["optimizer.lr=-1"], "optimizer.lr"),
        (["stage.pairs_per_step=9", "stage.accumulate=2"], "multiple of stage.accumulate"),
        (["data={sources: [stream], weights: [1, 2]}"], "as many weights"),
        (["data={kind: stream, preset: clevr}"], "unknown preset"),
        (["data={kind: stream, scenes: {max_object: 3}}"], "max_objects"),
    ],
)
def test_wrong_settings_are_named(changes: list[str], said: str) -> None:
    result = invoke(train, RECIPES / "smoke" / "dense.yaml", *(part for each in changes for part in ("--set", each)))
    assert isinstance(result.exception, SpotchangeError)
    assert said in result.exception.message
    assert "\n" not in result.exception.message


def test_resume_without_a_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spotchange.training import run

    monkeypatch.setattr(run, "prepare", lambda *arguments, **options: pytest.fail("the run was started"))
    result = invoke(train, RECIPES / "smoke" / "dense.yaml", "--out", tmp_path, "--resume")
    assert isinstance(result.exception, SpotchangeError)
    assert "no run to resume" in result.exception.message


def test_summary_is_json_on_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spotchange.training import run

    summary = {"best": 0.5, "metric": "CIDEr-D", "best_step": 3, "finished": True, "step": 4, "steps": 4}
    monkeypatch.setattr(run, "run_stage", lambda *arguments, **options: summary)
    result = invoke(train, RECIPES / "smoke" / "dense.yaml", "--out", tmp_path, "--json")
    assert json.loads(result.stdout) == summary


@pytest.mark.parametrize(
    ("metric", "shown"), [("CIDEr-D", "CIDEr-D 123.5 at"), ("R@1", "R@1 1.2346 at"), ("loss", "loss 1.2346 at")]
)
def test_caption_metrics_are_shown_as_papers_show_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, shown: str
) -> None:
    from spotchange.training import run

    summary = {"best": 1.23456, "metric": metric, "best_step": 3, "finished": True, "step": 4, "steps": 4}
    monkeypatch.setattr(run, "run_stage", lambda *arguments, **options: summary)
    result = invoke(train, RECIPES / "smoke" / "dense.yaml", "--out", tmp_path)
    assert shown in result.stdout


@pytest.mark.parametrize("compiles", [True, False])
def test_compiling_kernels_is_announced_once_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiles: bool
) -> None:
    import numba

    from spotchange.training import run

    def stage(*arguments: object, **options: object) -> dict[str, object]:
        if compiles:
            for kernel in (lambda value: value + 1, lambda value: value + 2):
                numba.njit(kernel)(3)
        return {"best": None, "finished": True, "step": 4, "steps": 4}

    monkeypatch.setattr(run, "run_stage", stage)
    result = invoke(train, RECIPES / "smoke" / "dense.yaml", "--out", tmp_path)
    assert result.exit_code == 0
    assert result.stderr.count("compiling kernels") == compiles


def test_unknown_ablation_lists_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RECIPES.parent)
    result = invoke(ablate, "tabel5")
    assert isinstance(result.exception, SpotchangeError)
    assert "table7" in result.exception.hint
