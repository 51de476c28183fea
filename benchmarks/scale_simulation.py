"""A million, a hundred million, ten thousand million pairs: time, cost and what saturates first, from measured figures.

python benchmarks/scale_measurements.py --out measured.json
python benchmarks/scale_simulation.py --measured measured.json [--worker cpu|gpu]

Pieces of work are dealt to workers as the cluster does it. Each piece takes the sum of batch times drawn from those
that were measured, and of reading every image from the store; some workers are slow, workers die now and then and lose
their piece, and a new one has to start.
Prices are what they are called here: assumptions, to be replaced by one's own.
"""

from __future__ import annotations

import argparse
import heapq
import json
from pathlib import Path

import numpy as np

PAIRS_A_PIECE, BATCH = 1024, 16  # cluster/work.py
MOST_PIECES = 200_000  # simulated; the rest of a longer run is like them
GPU_PAIRS_A_SECOND = 13_700.0  # measured: docs/experiments/rendering.md, decoding on one H200 in large batches
DECODED_A_CORE_SECOND = 160.0  # measured: docs/experiments/metrics-data-serving.md, 325 pairs/s on two cores
STORE_REQUESTS_A_SECOND = 5_500.0  # published by S3 for one prefix, not measured
START_SECONDS = 30.0  # of a worker: process, imports, model
CORES_BESIDE_A_GPU = 16


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
    parser.add_argument("--measured", type=Path, required=True, help="what scale_measurements.py wrote")
    parser.add_argument("--worker", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--slow", type=float, default=0.05, help="share of slow workers")
    parser.add_argument("--slower", type=float, default=3.0, help="how many times longer they take")
    parser.add_argument("--mtbf-hours", type=float, default=24.0, help="of a worker")
    parser.add_argument("--core-hour", type=float, default=0.04, help="price, assumed")
    parser.add_argument("--gpu-hour", type=float, default=4.0, help="price, assumed, with its cores")
    parser.add_argument("--get-per-million", type=float, default=0.4, help="price of requests, assumed")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    measured = json.loads(given.measured.read_text())
    times, a_pair = np.array(measured["batch_seconds"]), measured["requests_a_pair"]
    reading = a_pair / measured["requests_a_core_second"]  # seconds of a core for a pair whose images are files
    if given.worker == "cpu":
        times = times + BATCH * reading
    else:
        # A GPU computes faster than the cores beside it read and decode: images set the pace.
        pace = min(GPU_PAIRS_A_SECOND, CORES_BESIDE_A_GPU / (reading + 1 / DECODED_A_CORE_SECOND))
        times = times / times.mean() * BATCH / pace
    rate, price = BATCH / times.mean(), given.gpu_hour if given.worker == "gpu" else given.core_hour
    print(f"one {given.worker} worker: {rate:.2f} pairs/s, batches {times.min():.3f} to {times.max():.3f} s")
    print(f"of {len(times)} batches; {', '.join(f'{k} {v:,.1f}' for k, v in measured.items() if k != 'batch_seconds')}")
    print("| pairs | workers | hours | busy | cost | store GB/s | requests/s, a file an image (tar) | writers |")
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
            asked = a_pair * flow
            cost = hours * workers * price + a_pair * pairs / 10**6 * given.get_per_million
            of_tars = measured["requests_a_packed_pair"] * flow
            requests = f"{asked:,.0f} ({of_tars:,.0f})" + " !" * int(asked > STORE_REQUESTS_A_SECOND)
            long = f"{hours:,.{1 if hours >= 1 else 2}f}"
            print(
                f"| {pairs:.0e} | {workers:,} | {long} | {100 * busy:.0f} % | {cost:,.0f} "
                f"| {flow * measured['bytes_a_pair'] / 10**9:.2f} | {requests} "
                f"| {flow / measured['writer_rows_a_second']:.2f} |"
            )


if __name__ == "__main__":
    main()
