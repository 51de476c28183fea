"""On a GPU: the stream, bf16, compiled objectives and decoding together, for every stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from spotchange.config.training import Recipe
from spotchange.training.log import read_log
from spotchange.training.run import run_stage
from spotchange.training.stopping import StopRequest

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@pytest.mark.parametrize(
    "objective", [{"kind": "dense"}, {"kind": "adapt", "dense": {}}, {"kind": "caption", "dense": {}}]
)
def test_stage_learns_and_resumes(objective: dict[str, Any], tmp_path: Path) -> None:
    recipe = Recipe.from_mapping(
        {
            "name": "cuda",
            "model": {"preset": "spotchange-tiny"},
            "data": {"kind": "stream", "randomize": 1.0},
            "stage": {"objective": objective, "steps": 60, "pairs_per_step": 64, "precision": "bf16", "compile": True,
                      "ema": 0.9},
            "optimizer": {"lr": 2e-3},
            "augment": {"crop": 0.1, "brightness": 0.1},
            "validation": {"every": 30, "pairs": 64, "pairs_per_batch": 64, "metric": "loss"},
            "checkpoints": {"every": 20},
            "log": {"every": 10},
        },
        source="test",
    )  # fmt: skip
    stopped = run_stage(recipe, out=tmp_path / "run", stop=StopRequest(at_step=25), device="cuda")
    assert not stopped["finished"]
    done = run_stage(recipe, out=tmp_path / "run", resume=True, device="cuda")
    assert done["finished"]
    losses = [line["loss"] for line in read_log(tmp_path / "run" / "log.jsonl") if line["kind"] == "train"]
    assert losses[-1] < losses[0]


def test_recorded_updates_are_the_same_updates(tmp_path: Path) -> None:
    """Rates, clipping and the moving average go on where an update is replayed; batches differ from step to step."""

    def losses(recorded: bool) -> list[float]:
        recipe = Recipe.from_mapping(
            {
                "name": "recorded",
                "model": {"preset": "spotchange-tiny"},
                "data": {"kind": "stream", "kept": str(tmp_path / "scenes"), "kept_scenes": 64},
                "stage": {"objective": {"kind": "caption"}, "steps": 20, "pairs_per_step": 16, "ema": 0.9,
                          "cuda_graph": recorded},
                "optimizer": {"lr": 2e-3},
                "schedule": {"warmup": 0.5},
                "validation": {"every": 20, "pairs": 16, "pairs_per_batch": 16, "metric": "loss"},
                "log": {"every": 1},
            },
            source="test",
        )  # fmt: skip
        out = tmp_path / f"recorded-{recorded}"
        assert run_stage(recipe, out=out, device="cuda")["finished"]
        return [line["loss"] for line in read_log(out / "log.jsonl") if line["kind"] in ("train", "validation")]

    assert losses(True) == pytest.approx(losses(False), rel=2e-3)
