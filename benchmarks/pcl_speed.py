"""Pairs a second of IDC-PCL's pre-training: from features on disk, and from the stream through a frozen ResNet.

python benchmarks/pcl_speed.py                  # ResNet-50 (random weights cost the same), tasks 8 : 1 : 2, bf16
python benchmarks/pcl_speed.py --only features --pairs 512
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

from spotchange.config.base import apply_override
from spotchange.config.training import Recipe
from spotchange.training.run import prepare

BASE: dict[str, Any] = {
    "name": "pcl-speed",
    "model": {"preset": "idc-pcl-resnet50", "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0}},
    "stage": {"objective": {"kind": "pcl-pretrain"}, "steps": 10**9, "max_words": 24, "precision": "bf16"},
    "optimizer": {"lr": 1e-4},
    "validation": {"pairs": 2},
}


def measure(recipe: Recipe, *, seconds: float, device: str) -> dict[str, Any]:
    """Whole steps of the real loop's update, enough of them that every task comes in its share."""
    trainer = prepare(recipe, out=Path("unused"), device=device, validate=False)
    trainer.parallel.train()
    drawn: dict[str, int] = {}
    take = trainer.source.next_batch

    def counted() -> Any:
        batch = take()
        drawn[batch.task] = drawn.get(batch.task, 0) + 1
        return batch

    trainer.source.next_batch = counted  # type: ignore[method-assign]
    for _ in range(22):
        values = trainer._update()
    values["loss"].item()
    drawn.clear()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(11):
            values = trainer._update()
        steps += 11
        values["loss"].item()  # waits for the device
    elapsed = time.perf_counter() - began
    rate = steps * recipe.stage.pairs_per_step / elapsed
    return {"pairs_per_second": round(rate, 1), "ms_per_step": round(1e3 * elapsed / steps, 2), "tasks": drawn}


def main() -> None:
    """Print one JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=256, help="pairs a step")
    parser.add_argument("--scenes", type=int, default=2048, help="scenes whose features are made first")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE on top of the recipe")
    parser.add_argument("--only", choices=["features", "stream"])
    arguments = parser.parse_args()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    with tempfile.TemporaryDirectory() as folder:
        sources = {
            "features": {"kind": "features", "path": f"{folder}/features", "scenes": arguments.scenes},
            "stream": {"kind": "stream"},
        }
        for name, data in sources.items():
            if arguments.only not in (None, name):
                continue
            values = json.loads(json.dumps(BASE)) | {"data": data}
            for change in [f"stage.pairs_per_step={arguments.pairs}", *arguments.set]:
                apply_override(values, change)
            recipe = Recipe.from_mapping(values, source="pcl_speed")
            found = measure(recipe, seconds=arguments.seconds, device=arguments.device)
            print(
                json.dumps({"measured": name, "pairs_per_step": arguments.pairs, **found, "where": where}), flush=True
            )


if __name__ == "__main__":
    main()
