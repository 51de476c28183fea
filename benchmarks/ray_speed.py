"""Ray against the plain path on the same pairs: CPU time, wall time, memory, with the start of the cluster apart.

python benchmarks/ray_speed.py [--pairs 500] [--model bundled] [--repeats 3] [--memory 1000 20000]

CPU time is what counts on a machine that others use: it is taken from the process and from every worker. Repeats are
interleaved and ratios are taken within a repeat; the median and all of them are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import ray
from PIL import Image, ImageDraw

from spotchange.answering.build import LoadOptions, load
from spotchange.answering.bulk.on_cluster import CaptionWork, lines_from_cluster, write_from_cluster
from spotchange.answering.bulk.one_machine import NamedPair, caption_pairs, pairs_from_manifest
from spotchange.answering.captioner import Captioner
from spotchange.answering.interface import CaptionOptions
from spotchange.cluster import ClusterOptions

BATCH = 16


def write_pairs(folder: Path, count: int, size: tuple[int, int]) -> list[NamedPair]:
    """Small synthetic images, sixty-four different pairs named over and over."""
    for number in range(64):
        for side in ("before", "after"):
            image = Image.new("RGB", size, "gray")
            left = 4 + number % 9 * (side == "after")
            ImageDraw.Draw(image).rectangle(
                (left, 6, left + size[0] // 4, size[1] // 2), fill=("red", "blue")[number % 2]
            )
            image.save(folder / f"{number}_{side}.png")
    names = [(f"p{n}", f"{n % 64}_before.png", f"{n % 64}_after.png") for n in range(count)]
    lines = [json.dumps({"id": name, "before": before, "after": after}) for name, before, after in names]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    return pairs_from_manifest(folder / "pairs.jsonl")


@dataclass(frozen=True)
class Timed:
    """Work that says for every pair what its worker has spent since it was loaded and has answered one batch."""

    work: CaptionWork
    warm: Sequence[NamedPair]

    def start(self) -> Callable[[Sequence[Any]], Iterator[Any]]:
        do = self.work.start()
        list(do(self.warm))
        cpu, wall = time.process_time(), 0.0

        def lines(items: Sequence[Any]) -> Iterator[Any]:
            nonlocal wall
            wall = wall or time.perf_counter()
            for line in do(items):
                yield line | {"clocks": (os.getpid(), time.process_time() - cpu, time.perf_counter() - wall)}

        return lines

    def failed(self, item: Any, reason: str) -> Any:
        return self.work.failed(item, reason)

    @property
    def batch_size(self) -> int:
        return self.work.batch_size


def plain(captioner: Captioner, work: CaptionWork, pairs: Sequence[NamedPair]) -> dict[str, float]:
    """One thread in this process, model loaded and one batch answered before the clock starts."""
    list(caption_pairs(captioner, pairs[:BATCH], options=work.options, batch_size=BATCH))
    wall, cpu = time.perf_counter(), time.process_time()
    done = sum(1 for _ in caption_pairs(captioner, pairs, options=work.options, batch_size=BATCH))
    assert done == len(pairs)
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def on_ray(work: CaptionWork, pairs: Sequence[NamedPair], workers: int) -> dict[str, float]:
    """As the command does it. The clocks of the pairs run in the workers, from the first piece to the last line with
    everything that Ray does in between; `start_s` is all the rest: processes, imports, the model, one batch."""
    spent: dict[int, tuple[float, float]] = {}
    driver, began = time.process_time(), time.perf_counter()
    timed = Timed(work, pairs[:BATCH])
    lines = lines_from_cluster(timed, pairs, ClusterOptions(workers=workers), started=lambda count: None)  # type: ignore[arg-type]
    for line in lines:
        process, cpu, wall = line["clocks"]
        spent[process] = (cpu, wall)
    longest = max(wall for _, wall in spent.values())
    return {
        "start_s": time.perf_counter() - began - longest,
        "wall_s": longest,
        "cpu_s": sum(cpu for cpu, _ in spent.values()),
        "busiest_worker_s": max(cpu for cpu, _ in spent.values()),
        "driver_cpu_s": time.process_time() - driver,
    }


def peak_memory(work: CaptionWork, folder: Path, counts: Sequence[int]) -> dict[int, float]:
    """Largest unique memory of this process and all its children together, in MB, while many pairs are written."""
    peaks = {}
    for count in counts:
        pairs = write_pairs(folder, count, (32, 24))
        most = 0.0
        seen = 0.0

        def look(done: int) -> None:
            nonlocal most, seen
            if time.monotonic() < seen + 1:
                return
            seen = time.monotonic()
            processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
            most = max(most, sum(each.memory_full_info().uss for each in processes if each.is_running()) / 2**20)

        write_from_cluster(work, pairs, folder / f"{count}.jsonl", ClusterOptions(workers=2), advance=look)
        peaks[count] = round(most, 1)
    return peaks


RATIOS = (
    "one worker against plain, pairs a CPU second (wanted 0.9)",
    "one worker against plain, pairs a second",
    "two workers against one, by the CPU time of the busiest (wanted 1.6)",
    "two workers against one, pairs a second",
)


def _ratios(here: dict[str, float], one: dict[str, float], two: dict[str, float]) -> tuple[float, ...]:
    return (
        here["cpu_s"] / one["cpu_s"],
        here["wall_s"] / one["wall_s"],
        one["cpu_s"] / two["busiest_worker_s"],
        one["wall_s"] / two["wall_s"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=int, nargs="*", default=[1000, 20000])
    given = parser.parse_args()
    began = time.perf_counter()
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; Ray started in {time.perf_counter() - began:.1f} s"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # No fingerprints: the plain path below makes none either.
        work = CaptionWork(model=given.model, load=LoadOptions(threads=1), options=CaptionOptions(), batch_size=BATCH)
        pairs = write_pairs(folder, given.pairs, (480, 320))
        captioner = load(given.model, threads=1)
        ratios: dict[str, list[float]] = {name: [] for name in RATIOS}
        for _ in range(given.repeats):  # one after the other, so that what else the machine does meets all alike
            here, one, two = plain(captioner, work, pairs), on_ray(work, pairs, 1), on_ray(work, pairs, 2)
            for what, found in (("plain", here), ("one worker", one), ("two workers", two)):
                print(f"{what:12s}", {key: round(value, 2) for key, value in found.items()}, flush=True)
            for name, ratio in zip(RATIOS, _ratios(here, one, two), strict=True):
                ratios[name].append(ratio)
        for name, found in ratios.items():
            print(f"{name}: {median(found):.2f} ({', '.join(f'{each:.2f}' for each in sorted(found))})")
        if given.memory:
            small = CaptionWork(
                model="pixels",
                load=LoadOptions(threads=1),
                options=CaptionOptions(),
                batch_size=BATCH,
                asked="benchmark",
            )
            print("peak memory, MB:", peak_memory(small, folder, given.memory))


if __name__ == "__main__":
    main()
