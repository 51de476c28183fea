"""How soon an everyday model finds changes, in minutes of one CPU core.

python benchmarks/everyday_probe.py [--plain] [--matching 2] [--side 128]

480 pairs of 64 x 64 pixels of the library that ships, four times each, judged on 96 others; --plain leaves out the
difference to the other image's place and reads the kind from the mean of all cells, as CLIP4IDC does.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml

from spotchange.config.training import Recipe
from spotchange.everyday.library import bundled_library
from spotchange.training.optimizers import set_rates
from spotchange.training.run import prepare

RECIPE = Path("src/spotchange/recipes/everyday/train.yaml")
PAIRS, TRAINED, HELD_OUT, EPOCHS = 16, 30, 6, 4
SHOWN = ("change", "mask", "words", "changed_accuracy", "type_accuracy", "pointing")


def recipe(plain: bool, matching: int, side: int) -> Recipe:
    values: dict[str, Any] = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    values["stage"] |= {"precision": "fp32", "pairs_per_step": PAIRS, "max_minutes": None}
    values["stage"]["objective"] |= {"nouns": 0, "colours": 0, "window": 32}
    values["model"]["vision"] |= {"image_size": [side, side], "difference": not plain, "matching": matching}
    values["model"]["heads"] = {"change_by_heat": not plain}
    values["data"] |= {"library": str(bundled_library()), "most_objects": 200, "most_backgrounds": 40}
    return Recipe.from_mapping(values, source=str(RECIPE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--matching", type=int, default=0, help="model.vision.matching")
    parser.add_argument("--side", type=int, default=64, help="of the images, in pixels")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = prepare(
            recipe(options.plain, options.matching, options.side), out=Path(folder), device="cpu", validate=False
        )
    batches = [trainer.source.next_batch() for _ in range(HELD_OUT + TRAINED)]
    held_out, trained = batches[:HELD_OUT], batches[HELD_OUT:]
    objective, steps = trainer.objective, EPOCHS * TRAINED
    for step in range(steps):
        set_rates(trainer.optimizer, min(1, (step + 1) / 8) * (1 - 0.9 * step / steps))
        objective.train()
        objective(trained[step % TRAINED])["loss"].backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        if (step + 1) % TRAINED == 0:
            objective.eval()
            with torch.no_grad():
                judged = [objective(batch) for batch in held_out]
            means = {name: sum(float(each[name]) for each in judged) / HELD_OUT for name in SHOWN}
            print(step + 1, "  ".join(f"{name} {value:.3f}" for name, value in means.items()), flush=True)


if __name__ == "__main__":
    main()
