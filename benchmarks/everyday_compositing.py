"""How many pairs a second the everyday compositor makes: python benchmarks/everyday_compositing.py LIBRARY [PAIRS]

On a GPU it first compares some scenes with the CPU's, and ends with 1 where they are not the same.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.library import read_library
from spotchange.everyday.sampling import draw_scenes
from spotchange.everyday.stream import EverydayStream

COMPARED = 32  # scenes


def check_same(folder: Path, devices: tuple[str, str] = ("cpu", "cuda")) -> None:
    """The same scenes on both devices, but for rounding at edges."""
    images = []
    for device in devices:
        library = read_library(folder, device=device, most_objects=64, most_backgrounds=16)
        images.append(compose(library, draw_scenes(library, torch.arange(COMPARED), seed=5), side=96).pixels.cpu())
    apart = (images[0].int() - images[1].int()).abs()
    mean, far = apart.float().mean().item(), (apart > 8).float().mean().item()
    print(f"{COMPARED} scenes on {' and '.join(devices)}: {mean:.3f} levels apart, {far:.2%} of numbers by more than 8")
    if mean >= 0.5 or far >= 0.002:
        sys.exit(1)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    if device == "cuda":
        check_same(Path(sys.argv[1]))
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
