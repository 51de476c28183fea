"""Through the command line, on generated scenes, with dropout: a killed run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from spotchange.training.checkpoints import load_state
from spotchange.training.log import read_log

STEPS = 14
RECIPE = {
    "name": "resume",
    "seed": 5,
    "model": {
        "preset": "spotchange-tiny",
        "vision": {"image_size": [24, 36], "width": 16, "layers": 2, "n_inter": 1, "output_width": 16},
        "text": {"width": 16, "layers": 1, "encoder": False},
        "captioner": {"width": 16, "dropout": 0.3},
    },
    "data": {"kind": "stream", "randomize": 0.5, "scenes": {"max_objects": 4}},
    "stage": {"objective": {"kind": "caption", "dense": {}}, "steps": STEPS, "pairs_per_step": 8, "ema": 0.9},
    "augment": {"crop": 0.1, "noise": 0.05, "brightness": 0.2},
    "validation": {"every": 4, "pairs": 8, "pairs_per_batch": 8, "metric": "loss"},
    "checkpoints": {"every": 2},
    "log": {"every": 1},
}


def command(folder: Path, out: str, *options: str) -> list[str]:
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(RECIPE))
    return [sys.executable, "-m", "spotchange", "train", str(recipe), "--out", str(folder / out),
            "--device", "cpu", "--json", *options]  # fmt: skip


def run(folder: Path, out: str, *options: str) -> dict[str, Any]:
    done = subprocess.run(command(folder, out, *options), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a run that nothing disturbed, and what it said."""
    folder = tmp_path_factory.mktemp("straight")
    said = run(folder, "run")
    assert said["finished"]
    return folder / "run", said


def kill_at(folder: Path, out: str, step: int, *options: str) -> None:
    """SIGKILL as soon as the log shows `step`."""
    process = subprocess.Popen(command(folder, out, *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while not any(line.get("step", 0) >= step for line in read_log(folder / out / "log.jsonl")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def assert_same(first: Any, second: Any, where: str = "") -> None:
    """Equal to the last bit, whatever is inside."""
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            assert_same(first[key], second[key], f"{where}/{key}")
    elif isinstance(first, list | tuple):
        for place, (a, b) in enumerate(zip(first, second, strict=True)):
            assert_same(a, b, f"{where}/{place}")
    else:
        assert first == second, where


@pytest.mark.slow
def test_killed_and_resumed_equals_the_straight_run(straight: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    undisturbed, said = straight
    chance = random.Random(int(os.environ.get("SPOTCHANGE_TEST_SEED", "7")))
    first, second = sorted(chance.sample(range(2, STEPS), 2))
    kill_at(tmp_path, "killed", first)
    kill_at(tmp_path, "killed", second, "--resume")
    resumed = run(tmp_path, "killed", "--resume")
    expected, found = load_state(undisturbed / "last"), load_state(tmp_path / "killed" / "last")
    assert found.pop("elapsed") > 0
    assert expected.pop("elapsed") > 0
    assert_same(found, expected)
    for folder in ("best", "last"):
        weights = [(out / folder / "model.safetensors").read_bytes() for out in (undisturbed, tmp_path / "killed")]
        assert weights[0] == weights[1], folder
    assert (resumed["best"], resumed["best_step"]) == (said["best"], said["best_step"])
    told = [[line["loss"] for line in read_log(out / "log.jsonl") if line["kind"] == "train"]
            for out in (undisturbed, tmp_path / "killed")]  # fmt: skip
    assert told[0] == told[1]
    assert len(told[0]) == STEPS


@pytest.mark.slow
def test_a_planned_stop_equals_the_straight_run_and_runs_are_not_overwritten(
    straight: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    undisturbed, _ = straight
    part = run(tmp_path, "parts", "--until", "5")
    assert (part["finished"], part["step"]) == (False, 5)
    refused = subprocess.run(command(tmp_path, "parts"), capture_output=True, text=True, timeout=600)
    assert refused.returncode == 2
    assert "already holds a run" in refused.stderr
    assert run(tmp_path, "parts", "--resume")["finished"]
    expected, found = load_state(undisturbed / "last"), load_state(tmp_path / "parts" / "last")
    expected.pop("elapsed"), found.pop("elapsed")
    assert_same(found, expected)
