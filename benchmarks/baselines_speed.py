"""How fast is every published system, alone on the device? Training and captioning, in pairs a second.

    python benchmarks/baselines_speed.py [--systems duda] [--pairs 256] [--steps 30] > speeds.json

Features are random numbers of the shape that `spotchange ablate leaderboard` reads (14x14 cells, 1,024 channels), so
neither renderer nor network are needed; precision as in its recipe. Put the file beside the runs as `speeds.json` and
`spotchange leaderboard` shows it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from spotchange.config.ablation import Ablation
from spotchange.config.recipes import ABLATIONS, find_recipe
from spotchange.data.caches.feature_writing import write_features
from spotchange.data.caches.features import FeatureFacts, FeatureRow
from spotchange.models.interface import DecodingOptions
from spotchange.models.vision.resnet import frozen_network
from spotchange.training.ablation.table import plan
from spotchange.training.run import prepare
from spotchange.training.start import start_model

SCENES = 256
SENTENCES = ("the small red metal cube left of the big ball is gone", "there is no change")


def make_features(folder: Path, facts: FeatureFacts) -> None:
    """Random features of a few scenes."""
    rng = np.random.default_rng(1)
    cells, channels = facts.image_shape
    rows = []
    for scene in range(SCENES):
        for kind in (0, 1):
            rows.append(
                FeatureRow(
                    before=3 * scene,
                    after=3 * scene + 1 + kind,
                    captions=(SENTENCES[kind],),
                    change_type=1 - kind,
                    scene=scene,
                )
            )
    features = rng.random((3 * SCENES, cells, channels), dtype=np.float32).astype(np.float16)
    write_features(folder, facts, [(features, rows)])


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(recipe, out: Path, steps: int, device: str) -> dict[str, float]:
    """Pairs a second of one system."""
    trainer = prepare(recipe, out=out, device=device, validate=False)
    place = trainer.accelerator.device
    trainer.parallel.train()
    for _ in range(5):
        trainer._update()
    wait(place)
    began = time.perf_counter()
    for _ in range(steps):
        trainer._update()
    wait(place)
    training = steps * recipe.stage.pairs_per_step / (time.perf_counter() - began)
    model = trainer.objective.model.eval()
    batch = trainer.source.next_batch()
    before, after = (trainer.objective.normalise(each) for each in (batch.before, batch.after))
    options = DecodingOptions(method="greedy", max_words=recipe.stage.max_words - 1)
    rounds = 3
    with torch.inference_mode():
        model.generate(model.encode(before, after), options)
        wait(place)
        began = time.perf_counter()
        for _ in range(rounds):
            model.generate(model.encode(before, after), options)
        wait(place)
    captioning = rounds * len(before) / (time.perf_counter() - began)
    return {"training": round(training, 1), "captioning": round(captioning, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", nargs="*")
    parser.add_argument("--pairs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        changes = ["seeds=[1]"]
        for stage in ("recurrent", "transformer"):
            changes += [
                f"stages.{stage}.data={{kind: features, path: {folder}/features}}",
                f"stages.{stage}.stage.pairs_per_step={arguments.pairs}",
                f"stages.{stage}.model.vision.resnet=null",
            ]
        if arguments.device == "cpu":
            changes.append("stages.transformer.stage.precision=fp32")
        jobs = plan(Ablation.from_yaml(find_recipe("leaderboard", within=ABLATIONS), changes), Path(folder))
        speeds = {}
        for job in jobs:
            recipe = job.recipe.model_copy(update={"seed": 1})
            name = recipe.model.baseline.system
            if arguments.systems and name not in arguments.systems:
                continue
            _give_features(recipe, Path(folder) / "features")
            speeds[name] = measure(recipe, Path(folder) / name, arguments.steps, arguments.device)
            sys.stderr.write(f"{name}: {speeds[name]}\n")
            torch.cuda.empty_cache()
        sys.stdout.write(json.dumps(speeds, indent=1) + "\n")


def _give_features(recipe, folder: Path) -> None:
    """Features that claim to be of the network that this recipe will draw: every run draws the same one."""
    from spotchange.training.randomness import seed_everything

    seed_everything(recipe.seed, 0)
    start = start_model(recipe)
    network = frozen_network(start.model)
    assert network is not None
    if (folder / "features.json").exists():
        values = json.loads((folder / "features.json").read_text())
        values["backbone"] = network.fingerprint()
        (folder / "features.json").write_text(json.dumps(values))
        return
    make_features(
        folder,
        FeatureFacts(
            task="pairs",
            backbone=network.fingerprint(),
            image_size=start.settings.vision.image_size,
            grid=start.settings.vision.grid,
            channels=network.channels,
            paired=True,
        ),
    )


if __name__ == "__main__":
    main()
