"""Pairs a second of IDC-PCL's pre-training: from features on disk, and from the stream through a frozen ResNet.

python benchmarks/pcl_speed.py                  # ResNet-50, tasks 8 : 1 : 2, bf16, blocks compiled
python benchmarks/pcl_speed.py --only features  # half a minute; the stream's kernels alone take longer to compile
python benchmarks/pcl_speed.py --only negatives --device cpu  # what a step of FDA on the stream waits for

Weights and features are random, which cost the same as others. Every line is printed as soon as it is known.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spotchange.config.base import apply_override
from spotchange.config.training import Recipe
from spotchange.data.caches.feature_writing import write_features
from spotchange.data.caches.features import FeatureRow
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.data.negatives.scenes import SceneNegatives
from spotchange.language.vocabulary import PAD_ID
from spotchange.language.writer import captions_text, write_captions
from spotchange.pairs import PairBatch
from spotchange.scene import COLORS, MATERIALS, SHAPES, SIZES
from spotchange.scenes.changes import answers, as_tensors
from spotchange.scenes.sampler import World
from spotchange.training.randomness import seed_everything
from spotchange.training.run import prepare
from spotchange.training.sources.build import pairs_of, run_context
from spotchange.training.sources.extraction import FrozenBackbone
from spotchange.training.sources.generated.live import LiveScenes
from spotchange.training.sources.interface import Negatives
from spotchange.training.sources.negatives import WrittenNegatives
from spotchange.training.start import start_model

BASE: dict[str, Any] = {
    "name": "pcl-speed",
    "model": {
        "preset": "idc-pcl-resnet50",
        "heads": {"pretraining": True},
        "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
    },
    "stage": {
        "objective": {"kind": "pcl-pretrain"},
        "steps": 10**9,
        "max_words": 24,
        "precision": "bf16",
        "compile": True,
    },
    "optimizer": {"lr": 1e-4},
    "validation": {"pairs": 2},
}


TASKS = ("mlm", "mvcl", "fda")
COUNTS = (2, 2, 2)
EVENTS = ("appeared", "disappeared", "moved", *(f"turned {color}" for color in COLORS))
IMAGES_AT_ONCE = 256


def write_random_features(folder: Path, recipe: Recipe, scenes: int) -> None:
    """A feature folder as the recipe's own network would make it, with values and sentences drawn at random."""
    seed_everything(recipe.seed, 0)  # the network's random weights must be those of the run
    backbone = FrozenBackbone.of(start_model(recipe), "cpu")
    facts = backbone.facts("pairs", paired=True)
    things = [f"{size} {color} {material} {shape}" for size, color, material, shape in
              itertools.product(SIZES, COLORS, MATERIALS, SHAPES)]  # fmt: skip
    chance = random.Random(0)
    drawn = np.random.default_rng(0).standard_normal((IMAGES_AT_ONCE, *facts.image_shape), np.float32)
    features = drawn.astype(np.float16)

    def parts() -> Iterator[tuple[Any, list[FeatureRow]]]:
        for first in range(0, 3 * scenes, 3):
            caption = f"the {chance.choice(things)} {chance.choice(EVENTS)}"
            rows = [
                FeatureRow(before=first, after=first + 1, captions=(caption,), change_type=1, scene=first),
                FeatureRow(before=first, after=first + 2, captions=("nothing changed",), change_type=0, scene=first),
            ]
            place = first % (IMAGES_AT_ONCE - 3)
            yield features[place : place + 3], rows

    write_features(folder, facts, parts())


def measure(recipe: Recipe, *, seconds: float, device: str) -> dict[str, Any]:
    """Whole steps of the real loop's update, enough of them that every task comes in its share."""
    began = time.perf_counter()
    trainer = prepare(recipe, out=Path("unused"), device=device, validate=False)
    trainer.parallel.train()
    drawn: dict[str, int] = {}
    take = trainer.source.next_batch

    def counted() -> Any:
        batch = take()
        drawn[batch.task] = drawn.get(batch.task, 0) + 1
        return batch

    trainer.source.next_batch = counted  # type: ignore[method-assign]
    while len(drawn) < len(TASKS) or sum(drawn.values()) < 22:  # every task must have been compiled
        values = trainer._update()
    values["loss"].item()
    ready = time.perf_counter() - began
    drawn.clear()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(11):
            values = trainer._update()
        steps += 11
        values["loss"].item()  # waits for the device
    elapsed = time.perf_counter() - began
    rate = steps * recipe.stage.pairs_per_step / elapsed
    return {
        "pairs_per_second": round(rate, 1),
        "ms_per_step": round(1e3 * elapsed / steps, 2),
        "tasks": drawn,
        "ready_after_seconds": round(ready, 1),
    }


def measure_negatives(recipe: Recipe, *, device: str) -> dict[str, Any]:
    """A batch's hard negatives in ids, and as the writer for any set of captions makes them; captions all new."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    run, source = run_context(recipe, start_model(recipe), device=torch.device(device)), pairs_of(recipe.data)
    assert isinstance(source, LiveScenes)
    world = World(source.rules, seed=1, device=run.device_name)
    pairs, table = recipe.stage.pairs_per_step, source.sentences(run)
    ways: dict[str, Negatives] = {
        "ids": SceneNegatives(table, counts=COUNTS),
        "written": WrittenNegatives(NegativeWriter(captions_text(table), counts=COUNTS), run.coder()),
    }
    batches = [_captions_alone(world, first, pairs) for first in range(0, 2 * pairs, pairs // 2)]
    found = {}
    for name, write in ways.items():
        write(batches[0])
        began = time.perf_counter()
        for batch in batches[1:]:
            ids, _ = write(batch)
        ids.sum().item()  # waits for the device
        found[f"{name}_ms_a_batch"] = round(1e3 * (time.perf_counter() - began) / (len(batches) - 1), 2)
    return found


def _captions_alone(world: World, first: int, pairs: int) -> PairBatch:
    """A batch of the stream without its images."""
    scenes = world.scenes(np.arange(first, first + pairs // 2))
    ids = torch.as_tensor(write_captions(scenes, seed=world.seed, per_pair=1)).flatten(0, -2).long()
    told, change = answers(as_tensors(scenes)), as_tensors(scenes).change.long()
    return PairBatch(
        before=ids,
        after=ids,
        caption_ids=ids,
        caption_mask=ids != PAD_ID,
        change_type=torch.stack([change, torch.zeros_like(change)], 1).flatten(),
        scene_id=torch.arange(pairs),
        answer=torch.stack([told, torch.full_like(told, -1)], 1).flatten(0, 1),
    )


def main() -> None:
    """Print one JSON line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=512, help="pairs a step")
    parser.add_argument("--scenes", type=int, default=2048, help="scenes in the feature folder")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE on top of the recipe")
    parser.add_argument("--only", choices=["features", "stream", "negatives"])
    arguments = parser.parse_args()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    with tempfile.TemporaryDirectory() as folder:
        sources = {
            "features": {"kind": "features", "path": f"{folder}/features"},
            "stream": {"kind": "stream"},
            "negatives": {"kind": "stream"},
        }
        for name, data in sources.items():
            if arguments.only not in (None, name):
                continue
            values = json.loads(json.dumps(BASE)) | {"data": data}
            for change in [f"stage.pairs_per_step={arguments.pairs}", *arguments.set]:
                apply_override(values, change)
            recipe = Recipe.from_mapping(values, source="pcl_speed")
            if name == "features":
                write_random_features(Path(folder) / "features", recipe, arguments.scenes)
            if name == "negatives":
                device = {"auto": "cuda" if torch.cuda.is_available() else "cpu"}.get(
                    arguments.device, arguments.device
                )
                found = measure_negatives(recipe, device=device)
            else:
                found = measure(recipe, seconds=arguments.seconds, device=arguments.device)
            print(
                json.dumps({"measured": name, "pairs_per_step": arguments.pairs, **found, "where": where}), flush=True
            )


if __name__ == "__main__":
    main()
