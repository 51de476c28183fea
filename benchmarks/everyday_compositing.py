"""How many pairs a second the everyday compositor makes: python benchmarks/everyday_compositing.py LIBRARY [PAIRS]"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from spotchange.everyday.library import read_library
from spotchange.everyday.stream import EverydayStream


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    library = read_library(Path(sys.argv[1]), device=device)
    stream = EverydayStream(library, pairs=pairs, side=288, grid=(18, 18), seed=1)
    for rounds in (2, 10):  # the first compiles
        began = time.perf_counter()
        for _ in range(rounds):
            stream.next_batch()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    print(
        f"{device}: {rounds * pairs / seconds:.0f} pairs/s, batches of {pairs} at 288 pixels, truth and words included"
    )


if __name__ == "__main__":
    main()
