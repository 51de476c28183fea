"""What `spotchange caption` costs on this machine: loading, one more pair, many pairs, memory.

    python benchmarks/caption_cost.py [--model bundled] [--pairs 100] [--threads 2]

The cold start of the whole command is timed as a process of its own, imports included.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

EXAMPLES = Path(str(resources.files("spotchange"))) / "assets" / "examples"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()
    pair = (EXAMPLES / "2_a_new_colour_before.jpg", EXAMPLES / "2_a_new_colour_after.jpg")
    command = [sys.executable, "-m", "spotchange", "caption", *map(str, pair), "--model", options.model]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"cold `spotchange caption`: {time.perf_counter() - started:.2f} s")

    import spotchange.answering

    started = time.perf_counter()
    captioner = spotchange.answering.load(options.model, device="cpu", threads=options.threads)
    print(f"weights loaded after imports: {time.perf_counter() - started:.2f} s")
    captioner.caption(*pair)
    times = []
    for _ in range(10):
        started = time.perf_counter()
        captioner.caption(*pair)
        times.append(time.perf_counter() - started)
    print(f"one more pair: {sorted(times)[5]:.3f} s (median of 10)")
    started = time.perf_counter()
    count = sum(1 for _ in captioner.caption_many([pair] * options.pairs, batch_size=options.batch_size))
    seconds = time.perf_counter() - started
    print(f"{count} pairs in batches of {options.batch_size}: {count / seconds:.1f} pairs/s")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
