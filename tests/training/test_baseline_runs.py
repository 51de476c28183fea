"""A published system from a feature folder: trained, stopped, resumed, with its captions kept."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from spotchange.config.training import Recipe
from spotchange.data.caches.feature_writing import write_features
from spotchange.data.caches.features import FeatureFacts, FeatureRow
from spotchange.models.baselines.build import SYSTEMS
from spotchange.models.vision.resnet import frozen_network
from spotchange.training.checkpoints import load_state
from spotchange.training.randomness import seed_everything
from spotchange.training.run import run_stage
from spotchange.training.start import start_model
from spotchange.training.stopping import StopRequest

VISION = {"image_size": [64, 96], "resnet_depths": [1, 1, 1], "resnet_channels": [16, 16, 32]}
SMALL = {"width": 32, "hidden": 16, "word": 12, "heads": 2, "decoder_heads": 2, "inner": 48, "decoder_inner": 48}
SENTENCES = ("the red cube is gone", "there is no change", "the blue ball moved", "nothing has changed")


class StopAt(StopRequest):
    """Asks to stop once a step is done."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def wanted(self, step: int) -> bool:
        return step >= self.step


def recipe(folder: Path, system: str) -> Recipe:
    known = inspect.signature(SYSTEMS[system]).parameters
    sizes = {name: size for name, size in SMALL.items() if name in known}
    values = {
        "name": system,
        "seed": 3,
        "model": {"preset": "baseline", "vision": VISION, "baseline": {"system": system, "sizes": sizes}},
        "data": {"kind": "features", "path": str(folder / "features")},
        "stage": {"objective": {"kind": "baseline"}, "steps": 4, "pairs_per_step": 8, "max_words": 10},
        "optimizer": {"lr": 1e-3, "decoupled": False, "weight_decay": 0},
        "validation": {
            "data": {"kind": "features", "path": str(folder / "features")},
            "every": 2,
            "pairs": 8,
            "pairs_per_batch": 8,
            "metric": "loss",
            "keep_captions": True,
        },
        "checkpoints": {"every": 1},
        "log": {"every": 1},
    }
    return Recipe.from_mapping(values, source="test")


def make_features(folder: Path, wanted: Recipe) -> None:
    seed_everything(wanted.seed, 0)
    start = start_model(wanted)
    network = frozen_network(start.model)
    assert network is not None
    facts = FeatureFacts(
        task="pairs",
        backbone=network.fingerprint(),
        image_size=start.settings.vision.image_size,
        grid=start.settings.vision.grid,
        channels=network.channels,
        paired=True,
    )
    rows = [
        FeatureRow(
            before=3 * scene,
            after=3 * scene + 1 + kind,
            captions=(SENTENCES[kind], SENTENCES[2 + kind]),
            change_type=0 if kind else 4,
            scene=scene,
        )
        for scene in range(6)
        for kind in (0, 1)
    ]
    features = np.random.default_rng(1).random((18, *facts.image_shape)).astype(np.float16)
    write_features(folder / "features", facts, [(features, rows)])


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_stopped_run_ends_as_if_nothing_had_happened(system: str, tmp_path: Path) -> None:
    wanted = recipe(tmp_path, system)
    make_features(tmp_path, wanted)
    run_stage(wanted, out=tmp_path / "whole", device="cpu")
    run_stage(wanted, out=tmp_path / "parts", device="cpu", stop=StopAt(2))
    summary = run_stage(wanted, out=tmp_path / "parts", resume=True, device="cpu")
    assert summary is not None
    assert summary["finished"]
    whole, parts = (load_state(tmp_path / name / "last")["objective"] for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    rows = [json.loads(line) for line in (tmp_path / "parts" / "captions.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert rows[0]["references"] == [SENTENCES[0], SENTENCES[2]]
    assert rows[1]["change_type"] == "none"
    assert rows[0]["fact"] is None  # features know no scenes
