"""Pairs a second of training: the model alone on one batch again and again, and fed by the generated stream.

python benchmarks/training_speed.py                       # ViT-B/32 size, caption stage, bf16, compiled
python benchmarks/training_speed.py recipes/small/dense.yaml --pairs 512
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from spotchange.config.base import apply_override, read_yaml
from spotchange.config.training import Recipe
from spotchange.training.run import prepare
from spotchange.training.sources import BatchSource

DEFAULT = {
    "name": "speed",
    "model": {"preset": "clip4idc", "text": {"encoder": False}},
    "data": {"kind": "stream"},
    "stage": {"objective": {"kind": "caption"}, "steps": 10**9, "precision": "bf16", "compile": True},
    "optimizer": {"lr": 1e-4, "part_lrs": {"encoder.*": 1e-7}},
    "validation": {"pairs": 2},
}


class SameBatch:
    """One batch for ever: what is left is the model's own speed."""

    def __init__(self, source: BatchSource) -> None:
        self.paired, self._batch = source.paired, source.next_batch()

    def next_batch(self) -> Any:
        return self._batch


def measure(recipe: Recipe, *, alone: bool, seconds: float, device: str) -> dict[str, float]:
    """Pairs a second after compilation and warm-up, whole steps of the real loop's update."""
    trainer = prepare(recipe, out=Path("unused"), device=device, validate=False)
    if alone:
        trainer.source = SameBatch(trainer.source)
    trainer.parallel.train()
    for _ in range(8):
        values = trainer._update()
    values["loss"].item()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            values = trainer._update()
        steps += 10
        values["loss"].item()  # waits for the device
    elapsed = time.perf_counter() - began
    return {"pairs_per_second": steps * recipe.stage.pairs_per_step / elapsed, "ms_per_step": 1e3 * elapsed / steps}


def main() -> None:
    """Print one JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?")
    parser.add_argument("--pairs", type=int, default=512, help="pairs a step")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE on top of the recipe")
    parser.add_argument("--only", choices=["alone", "stream"])
    arguments = parser.parse_args()
    values = read_yaml(arguments.recipe) if arguments.recipe else DEFAULT
    for change in [f"stage.pairs_per_step={arguments.pairs}", "stage.start_from=null", *arguments.set]:
        apply_override(values, change)
    recipe = Recipe.from_mapping(values, source=arguments.recipe or "default")
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    for name in ["alone", "stream"] if arguments.only is None else [arguments.only]:
        found = measure(recipe, alone=name == "alone", seconds=arguments.seconds, device=arguments.device)
        rounded = {key: round(value, 2) for key, value in found.items()}
        print(json.dumps({"measured": name, "pairs_per_step": arguments.pairs, **rounded, "where": where}), flush=True)


if __name__ == "__main__":
    main()
