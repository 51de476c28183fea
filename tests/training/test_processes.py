"""Two processes with half a batch each learn what one learns from the whole."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What the group of two found."""
    folder = tmp_path_factory.mktemp("gloo")
    rendezvous, out = f"file://{folder / 'rendezvous'}", folder / "found.pt"
    command = [sys.executable, str(HERE / "one_of_two.py")]
    group = [
        subprocess.Popen([*command, str(rank), rendezvous, str(out)], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in group:
        _, complaint = process.communicate(timeout=600)
        assert process.returncode == 0, complaint
    return torch.load(out, weights_only=True)


@pytest.mark.parametrize("kind", list(load("whole_batch").KINDS))
def test_same_loss_and_gradients_as_one_process(two: dict, kind: str) -> None:
    whole_batch = load("whole_batch")
    objective, batch = whole_batch.objective_and_batch(kind)
    results = objective(batch)
    results["loss"].backward()
    expected = whole_batch.gradients(objective)
    assert two[kind]["loss"] == pytest.approx(float(results["loss"].detach()), rel=1e-5)
    found = two[kind]["gradients"]
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}")
