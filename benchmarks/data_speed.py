"""How fast pairs come from disk, and how much memory that takes.

    python benchmarks/data_speed.py                      # about two minutes on two idle cores
    python benchmarks/data_speed.py --speed-pairs 300 --memory-pairs 2000 8000

Speed: pairs of 480x320 JPEG images brought to 224x224, decoded from files, read from the decoded cache, streamed
from tar shards. Memory: the peak of a process that opens a set and reads two thousand pairs from it, for sets of two
sizes; each is measured in a process of its own, with images so small that the set's rows are what could grow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from spotchange.data import Row, write_rows
from spotchange.data.shards import list_shards, read_shards, write_shards
from spotchange.images import read_image, squash
from spotchange.language.vocabulary import build_tokenizer
from spotchange.training.sources.folder import FolderBatches

SIDE = 224
BATCH = 128


def make_set(folder: Path, pairs: int, size: tuple[int, int], distinct: int) -> Path:
    """A set of `pairs` change and distractor rows over `distinct` scenes' images of photographic detail."""
    images = folder / "train" / "images"
    images.mkdir(parents=True)
    chance = np.random.default_rng(0)
    for scene in range(distinct):
        for kind in ("before", "after", "same"):
            coarse = chance.integers(0, 256, (24, 36, 3), dtype=np.uint8)
            image = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
            image.save(images / f"{scene}_{kind}.jpg", quality=90)
    write_rows(folder / "train" / "metadata.jsonl", _rows(pairs, distinct))
    return folder


def _rows(pairs: int, distinct: int) -> Iterator[Row]:
    for number in range(pairs // 2):
        scene = number % distinct
        for kind, change_type in (("after", "color"), ("same", "none")):
            yield Row(
                id=f"{number}_{kind}",
                before_file_name=f"images/{scene}_before.jpg",
                after_file_name=f"images/{scene}_{kind}.jpg",
                captions=("the large red metal cube behind the small sphere turned blue",) * 5,
                change_type=change_type,
                scene_id=number,
            )


def open_source(folder: Path, side: int, workers: int = 2) -> FolderBatches:
    return FolderBatches(folder, "train", tokenizer=build_tokenizer(), image_size=side, batch=BATCH, workers=workers)


def measure_speed(pairs: int, seconds: float) -> Iterator[str]:
    """Pairs a second from JPEG files, from the cache and from shards, by the clock and by the processor's own time."""
    with tempfile.TemporaryDirectory() as place:
        folder = make_set(Path(place) / "set", pairs, (480, 320), distinct=pairs // 2)
        sizes = [path.stat().st_size for path in (folder / "train" / "images").iterdir()]
        yield f"pictures: 480x320 JPEG of {np.mean(sizes) / 1000:.0f} kB on average, to {SIDE}x{SIDE}"
        # A change and its distractor share the image before, which is decoded once.
        watch = Stopwatch()
        source = open_source(folder, SIDE)
        yield watch.report("decoding JPEG files into the cache, 2 threads", pairs)
        yield _read_for("reading the cache, 2 threads ahead", source, seconds)
        yield _read_for("reading the cache, no thread", open_source(folder, SIDE, workers=0), seconds)
        write_shards(folder, Path(place) / "shards", pairs_per_shard=250)
        shards = list_shards(Path(place) / "shards")["train"]
        watch = Stopwatch()
        yield watch.report("streaming shards, encoded bytes", sum(1 for _ in read_shards(shards)))
        watch = Stopwatch()
        yield watch.report("streaming shards, decoded, 2 threads", _decode_shards(shards))


class Stopwatch:
    """Time by the clock, and the processor's, which other programs on the machine do not stretch."""

    def __init__(self) -> None:
        self.clock, self.processor = time.perf_counter(), time.process_time()

    def report(self, name: str, pairs: int) -> str:
        clock, processor = time.perf_counter() - self.clock, time.process_time() - self.processor
        return f"{name}: {pairs / clock:,.0f} pairs/s, {pairs / processor:,.0f} a processor second"


def _read_for(name: str, source: FolderBatches, seconds: float) -> str:
    source.next_batch()
    watch, count = Stopwatch(), 0
    while time.perf_counter() - watch.clock < seconds:
        count += len(source.next_batch())
    text = watch.report(name, count)
    source.close()
    return text


def _decode_shards(shards: list[Path]) -> int:
    pairs = read_shards(shards)
    count = 0
    with ThreadPoolExecutor(2) as pool:
        while window := list(islice(pairs, 64)):
            images = [content for pair in window for content in (pair.before, pair.after)]
            count += sum(1 for _ in pool.map(lambda content: squash(read_image(content), SIDE), images)) // 2
    return count


def measure_memory(pairs: int) -> dict[str, float]:
    """Peak memory of a process that builds a set's cache and reads from it."""
    with tempfile.TemporaryDirectory() as place:
        make_set(Path(place) / "set", pairs, (16, 16), distinct=1000)
        command = [sys.executable, __file__, "--read", str(Path(place) / "set")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"pairs": pairs, **json.loads(done.stdout)}


def read_and_report(folder: Path) -> None:
    """The measured process: open a set, read two thousand pairs, print the memory used before and at the peak."""
    idle = _memory("VmRSS")
    source = open_source(folder, 16)
    built = _memory("VmHWM")
    for _ in range(2000 // BATCH):
        source.next_batch()
    source.close()
    print(json.dumps({"idle_mb": idle, "after_building_mb": built, "peak_mb": _memory("VmHWM")}))


def _memory(field: str) -> float:
    """Megabytes, as Linux accounts them to this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return round(int(line.split()[1]) / 1024, 1)
    raise LookupError(field)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed-pairs", type=int, default=1000)
    parser.add_argument("--memory-pairs", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is not None:
        read_and_report(options.read)
        return
    for line in measure_speed(options.speed_pairs, options.seconds):
        print(line, flush=True)
    for pairs in options.memory_pairs:
        print(json.dumps(measure_memory(pairs)), flush=True)


if __name__ == "__main__":
    main()
