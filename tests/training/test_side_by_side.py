"""Chains of an ablation in several processes: order, failures, stopping, whose line is whose."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from spotchange.config.ablation import Ablation
from spotchange.errors import ConfigError
from spotchange.training.ablation.parallel import run_side_by_side
from spotchange.training.ablation.table import Job, plan
from spotchange.training.stopping import StopRequest

RECIPE = {
    "model": {"preset": "spotchange-tiny"},
    "data": "stream",
    "stage": {"objective": {"kind": "caption"}, "steps": 4, "start_from": "previous"},
}
ABLATION = {
    "name": "test",
    "seeds": [1, 2],
    "shared": "dense",
    "stages": {"dense": RECIPE, "adapt": RECIPE, "caption": RECIPE},
    "cells": {"a": {"stages": ["adapt", "caption"]}, "b": {"stages": ["caption"]}},
}


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # new processes import the pretended runs from here
    return plan(Ablation.from_mapping(json.loads(json.dumps(ABLATION)), source="test"), tmp_path)


def pretend(recipe: Any, *, out: Path, resume: bool, stop: StopRequest, device: str) -> dict[str, Any]:
    """A run that notes when it began and in which process, says a line, and ends."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "began").write_text(json.dumps([time.time(), os.getpid()]))
    print(f"training {recipe.name}", file=sys.stderr)
    time.sleep(0.2)
    return {"finished": True, "best_step": 1, "step": 1}


def fail_in_b(recipe: Any, *, out: Path, **options: Any) -> dict[str, Any]:
    if "/b/" in out.as_posix():
        raise ConfigError("no such thing") if "seed-1" in out.as_posix() else KeyError("broken")
    return pretend(recipe, out=out, **options)


def until_stopped(recipe: Any, *, out: Path, resume: bool, stop: StopRequest, device: str) -> dict[str, Any]:
    if out.name == "shared":
        return pretend(recipe, out=out, resume=resume, stop=stop, device=device)
    for step in range(2000):
        if stop.wanted(step):
            return {"finished": False, "best_step": None, "step": step}
        time.sleep(0.01)
    return {"finished": True, "best_step": 1, "step": 2000}


def begun(job: Job) -> tuple[float, int]:
    when, process = json.loads((job.out / "began").read_text())
    return when, process


def test_shared_stage_comes_first_and_chains_keep_their_order(jobs: list[Job], capfd) -> None:
    outcomes = run_side_by_side(jobs, pretend, workers=2, stop=StopRequest(), device="cpu")
    assert set(outcomes) == {"shared", "a, seed 1", "a, seed 2", "b, seed 1", "b, seed 2"}
    assert all(outcome.finished for outcome in outcomes.values())
    assert all(job.summary is not None for job in jobs)
    when = {job.label: begun(job)[0] for job in jobs}
    assert min(when, key=lambda label: when[label]) == "shared, dense, seed 1"
    assert when["a, adapt, seed 1"] < when["a, caption, seed 1"]
    assert os.getpid() not in {begun(job)[1] for job in jobs}
    assert "[a, seed 2] training test-caption" in capfd.readouterr().err.splitlines()


def test_a_failing_cell_is_told_and_the_others_go_on(jobs: list[Job], capfd) -> None:
    outcomes = run_side_by_side(jobs, fail_in_b, workers=2, stop=StopRequest(), device="cpu")
    assert outcomes["b, seed 1"].error == "no such thing"
    assert outcomes["b, seed 2"].error == "KeyError: 'broken'"
    assert outcomes["a, seed 1"].finished
    assert outcomes["a, seed 2"].finished
    assert "[b, seed 2] KeyError: 'broken'" in capfd.readouterr().err


def test_a_wish_to_stop_reaches_every_process(jobs: list[Job]) -> None:
    stop = StopRequest()
    timer = threading.Timer(4.0, lambda: setattr(stop, "heard", signal.SIGINT))
    timer.start()
    outcomes = run_side_by_side(jobs, until_stopped, workers=2, stop=stop, device="cpu")
    assert not any(outcome.finished or outcome.error for name, outcome in outcomes.items() if name != "shared")
