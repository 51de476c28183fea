"""Pairs a second of training: the model alone on made-up batches, and fed by the generated stream.

python benchmarks/training_speed.py                       # ViT-B/32 size, caption stage, bf16, compiled by regions
python benchmarks/training_speed.py recipes/small/dense.yaml --pairs 512 --only stream

Whole updates of the real loop: batch, loss, gradients, clipping, optimizer. Made-up captions fill all their words.
Each line is printed as soon as it is measured, on what came before it (weights, compiled code) already there.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from spotchange.config.base import apply_override, read_yaml
from spotchange.config.model import ModelSettings
from spotchange.config.training import Recipe
from spotchange.pairs import PairBatch
from spotchange.scene import ATTRIBUTE_VALUES
from spotchange.training.loop import Trainer
from spotchange.training.run import prepare

DEFAULT = {
    "name": "speed",
    "model": {"preset": "clip4idc", "text": {"encoder": False}},
    "data": {"kind": "stream"},
    "stage": {"objective": {"kind": "caption"}, "steps": 10**9, "precision": "bf16", "compile": "whole"},
    "optimizer": {"lr": 1e-4, "part_lrs": {"encoder.*": 1e-7}},
    "validation": {"pairs": 2},
}


class SameBatch:
    """One made-up batch for ever: what is left is the model's own speed."""

    paired = shares_before = True

    def __init__(self, settings: ModelSettings, *, pairs: int, words: int, device: torch.device) -> None:
        vocabulary, patches = settings.vocabulary, settings.vision.grid[0] * settings.vision.grid[1]

        def numbers(low: int, high: int, *shape: int) -> torch.Tensor:
            return torch.randint(low, high, shape, device=device)

        ids = numbers(3, vocabulary.size - 2, pairs, words)
        ids[:, 0], ids[:, -1] = vocabulary.begin, vocabulary.end
        before, after = numbers(0, 256, 2, pairs, 3, *settings.vision.image_size).to(torch.uint8)
        row = torch.arange(pairs, device=device)
        self._batch = PairBatch(
            before=before,
            after=after,
            caption_ids=ids,
            caption_mask=torch.ones_like(ids, dtype=torch.bool),
            change_type=torch.where(row % 2 == 0, 1, 0),
            scene_id=row // 2,
            patch_attributes=numbers(-1, min(map(len, ATTRIBUTE_VALUES)), pairs, 2, patches, 4).to(torch.int8),
            change_mask=numbers(0, 20, pairs, 2, patches) == 0,
            answer=numbers(-1, 2, pairs, 6),
        )

    def next_batch(self) -> PairBatch:
        return self._batch

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing moves on."""


def measure(trainer: Trainer, pairs: int, seconds: float) -> dict[str, float]:
    """Pairs a second once everything is compiled and warm, and how long that took."""
    began = time.perf_counter()
    for _ in range(5):
        trainer._update()["loss"].item()
    ready = time.perf_counter()
    steps = 0
    while time.perf_counter() - ready < seconds:
        for _ in range(5):
            values = trainer._update()
        steps += 5
        values["loss"].item()  # waits for the device
    elapsed = time.perf_counter() - ready
    return {
        "pairs_per_second": steps * pairs / elapsed,
        "ms_per_step": 1e3 * elapsed / steps,
        "seconds_until_warm": ready - began,
    }


def main() -> None:
    """Print one JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?")
    parser.add_argument("--pairs", type=int, default=512, help="pairs a step")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement, after warming up")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE on top of the recipe")
    parser.add_argument("--only", choices=["alone", "stream"])
    arguments = parser.parse_args()
    values = read_yaml(arguments.recipe) if arguments.recipe else DEFAULT
    for change in [f"stage.pairs_per_step={arguments.pairs}", "stage.start_from=null", *arguments.set]:
        apply_override(values, change)
    recipe = Recipe.from_mapping(values, source=arguments.recipe or "default")
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    with tempfile.TemporaryDirectory() as folder:
        trainer = prepare(recipe, out=Path(folder), device=arguments.device, validate=False)
    trainer.parallel.train()
    stream, device = trainer.source, trainer.accelerator.device
    part = arguments.pairs // recipe.stage.accumulate
    assert recipe.model is not None
    made_up = SameBatch(recipe.model, pairs=part, words=recipe.stage.max_words, device=device)
    for name, source in (("alone", made_up), ("stream", stream)):
        if arguments.only in (None, name):
            trainer.source = source
            found = measure(trainer, arguments.pairs, arguments.seconds)
            rounded = {key: round(value, 2) for key, value in found.items()}
            line = {"measured": name, "pairs_per_step": arguments.pairs, **rounded, "where": where}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
