"""How fast captions are written as token ids, how many scenes can be described, and whether the checker agrees.

    python benchmarks/caption_speed.py [--device cpu|cuda] [--scenes 100000] [--seed 1]

Scenes keep the placement rules; whether objects are seen does not matter here and is not checked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spotchange.config.scenes import SceneSettings
from spotchange.language.checker import check
from spotchange.language.writer import captions_text, describable, write_captions
from spotchange.scene import SceneBatch
from spotchange.scenes.changes import scene_json
from spotchange.scenes.sampler import World

CHECKED_SCENES = 2000
REFERENCES = 6


def scenes_on(device: str, scenes: int, seed: int) -> SceneBatch:
    """Candidates of the benchmark's world, before any of them is rejected."""
    world = World(SceneSettings(), seed=seed, device=device)
    numbers, starts = np.arange(scenes, dtype=np.int64), np.zeros(scenes, np.int32)
    if device != "cpu":
        import torch

        return world.draw(torch.from_numpy(numbers).to(device), torch.from_numpy(starts).to(device))[0]
    return world.draw(numbers, starts)[0]


def as_numpy(values: Any) -> np.ndarray:
    """An array of either kind as numpy's."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


def seconds(work: Callable[[], Any], device: str, repeats: int = 5) -> float:
    """Median time of some work; the first run, which compiles, does not count."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        if device != "cpu":
            import torch

            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--scenes", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    batch = scenes_on(options.device, options.scenes, options.seed)
    pairs = 2 * len(batch)
    print(f"{options.device}, {len(batch):,} scenes, {pairs:,} pairs")
    print(f"can the change be told?  {pairs / seconds(lambda: describable(batch), options.device):14,.0f} pairs/s")
    for per_pair in (1, REFERENCES):
        took = seconds(lambda count=per_pair: write_captions(batch, seed=1, per_pair=count), options.device)
        print(f"captions, {per_pair} a pair      {pairs / took:14,.0f} pairs/s")
    share = as_numpy(describable(batch)).mean()
    print(f"scenes whose change some phrase tells apart: {share:.3%}")
    report_check(batch)


def report_check(batch: SceneBatch) -> None:
    """Have the independent checker read the captions of the first scenes."""
    first = batch[:CHECKED_SCENES]
    clear, ids = as_numpy(describable(first)), as_numpy(write_captions(first, seed=1, per_pair=REFERENCES))
    scenes = SceneBatch(**{name: as_numpy(values) for name, values in vars(first).items()})
    correct, told, sentences = 0, 0, []
    for s in np.flatnonzero(clear):
        scene = scene_json(scenes, int(s), str(s))
        for pair in (0, 1):
            texts = captions_text(ids[s, pair])
            correct += sum(check(text, scene, distractor=pair == 1).correct for text in texts)
            told += len(texts)
            sentences += texts if pair == 0 else []
    words = np.array([len(text.split()) for text in sentences])
    print(f"true and clear by the checker: {correct:,} of {told:,}")
    print(f"different sentences about changes: {len(set(sentences)):,} of {len(sentences):,}")
    print(f"words a sentence: mean {words.mean():.1f}, from {words.min()} to {words.max()}")


if __name__ == "__main__":
    main()
