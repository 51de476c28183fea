"""A million, a hundred million, ten thousand million pairs: time, cost and what saturates first, from measured figures.

python benchmarks/scale_simulation.py --measure 8 --times times.json   # CPU seconds of batches of 16 on this machine
python benchmarks/scale_simulation.py --times times.json [--worker cpu|gpu]

Pieces of work are dealt to workers as the cluster does it. Each piece takes the sum of batch times drawn from those
that were measured; some workers are slow, workers die now and then and lose their piece, and a new one has to start.
Prices are what they are called here: assumptions, to be replaced by one's own.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from pathlib import Path

import numpy as np

PAIRS_A_PIECE, BATCH = 1024, 16  # cluster/work.py
MOST_PIECES = 200_000  # simulated; the rest of a longer run is like them
GPU_PAIRS_A_SECOND = 13_700.0  # measured: docs/experiments/rendering.md, decoding on one H200 in large batches
DECODED_A_CORE_SECOND = 160.0  # measured: docs/experiments/metrics-data-serving.md, 325 pairs/s on two cores
BYTES_A_PAIR = 2 * 35_000  # measured: the same, 480x320 JPEG
STORE_REQUESTS_A_SECOND = 5_500.0  # published by S3 for one prefix, not measured
START_SECONDS = 30.0  # of a worker: process, imports, model
CORES_BESIDE_A_GPU = 16


def measured_batches(count: int) -> list[float]:
    """CPU seconds of batches of the shipped model at one thread, pictures of 480x320."""
    from PIL import Image, ImageDraw

    from spotchange.answering import load

    captioner = load(threads=1)
    pairs = []
    for number in range(BATCH):
        sides = [Image.new("RGB", (480, 320), "gray") for _ in range(2)]
        for picture, left in zip(sides, (40, 40 + 9 * number), strict=True):
            ImageDraw.Draw(picture).rectangle((left, 60, left + 90, 160), fill="red")
        pairs.append((sides[0], sides[1]))
    list(captioner.answer_many(pairs[:2]))
    times = []
    for _ in range(count):
        began = time.process_time()
        list(captioner.answer_many(pairs, batch_size=BATCH))
        times.append(time.process_time() - began)
    return times


def simulate(
    pieces: int, workers: int, batch_times: np.ndarray, *, slow: float, slower: float, mtbf: float, seed: int
) -> tuple[float, float]:
    """Hours until all pieces are done, and the share of worker time that made results."""
    random = np.random.default_rng(seed)
    batches = PAIRS_A_PIECE // BATCH
    durations = random.choice(batch_times, (min(pieces, 4096), batches)).sum(1)
    factors = np.where(random.random(workers) < slow, slower, 1.0)
    free = [(START_SECONDS, worker) for worker in range(workers)]
    heapq.heapify(free)
    done, useful, end, queue = 0, 0.0, 0.0, pieces
    while queue:
        now, worker = heapq.heappop(free)
        took = durations[done % len(durations)] * factors[worker]
        dies = random.exponential(mtbf)
        if dies < took:
            heapq.heappush(free, (now + dies + START_SECONDS, worker))  # the piece goes back
            continue
        queue -= 1
        done += 1
        useful += took
        end = max(end, now + took)
        heapq.heappush(free, (now + took, worker))
    return end / 3600, useful / (end * workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=int, help="measure so many batches and write --times")
    parser.add_argument("--times", type=Path, required=True)
    parser.add_argument("--worker", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--slow", type=float, default=0.05, help="share of slow workers")
    parser.add_argument("--slower", type=float, default=3.0, help="how many times longer they take")
    parser.add_argument("--mtbf-hours", type=float, default=24.0, help="of a worker")
    parser.add_argument("--core-hour", type=float, default=0.04, help="price, assumed")
    parser.add_argument("--gpu-hour", type=float, default=4.0, help="price, assumed, with its cores")
    parser.add_argument("--get-per-million", type=float, default=0.4, help="price of requests, assumed")
    parser.add_argument("--driver-pairs", type=float, default=0.0, help="pairs a second one driver takes, measured")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.measure:
        given.times.write_text(json.dumps(measured_batches(given.measure)))
    times = np.array(json.loads(given.times.read_text()))
    if given.worker == "gpu":
        # A GPU computes faster than the cores beside it decode: pictures set the pace.
        pace = min(GPU_PAIRS_A_SECOND, DECODED_A_CORE_SECOND * CORES_BESIDE_A_GPU)
        times = times / times.mean() * BATCH / pace
    rate, price = BATCH / times.mean(), given.gpu_hour if given.worker == "gpu" else given.core_hour
    print(f"one {given.worker} worker: {rate:.2f} pairs/s, batches {times.min():.3f} to {times.max():.3f} s")
    print("| pairs | workers | hours | busy | cost | store GB/s | requests/s, files (tar) | drivers |")
    print("|---|---|---|---|---|---|---|---|")
    for pairs, counts in ((10**6, (16, 64)), (10**8, (256, 1024)), (10**10, (1024, 4096))):
        pieces = -(-pairs // PAIRS_A_PIECE)
        for workers in counts:
            part = min(pieces, max(MOST_PIECES, 20 * workers))
            hours, busy = simulate(
                part,
                workers,
                times,
                slow=given.slow,
                slower=given.slower,
                mtbf=3600 * given.mtbf_hours,
                seed=given.seed,
            )
            hours *= pieces / part
            flow = pairs / (3600 * hours)
            cost = hours * workers * price + 2 * pairs / 10**6 * given.get_per_million
            drivers = f"{flow / given.driver_pairs:.1f}" if given.driver_pairs else "-"
            requests = f"{2 * flow:,.0f} ({2 * flow / PAIRS_A_PIECE:,.0f})" + " !" * int(
                2 * flow > STORE_REQUESTS_A_SECOND
            )
            print(
                f"| {pairs:.0e} | {workers:,} | {hours:,.1f} | {100 * busy:.0f} % | {cost:,.0f} "
                f"| {flow * BYTES_A_PAIR / 10**9:.2f} | {requests} | {drivers} |"
            )


if __name__ == "__main__":
    main()
