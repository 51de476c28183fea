"""CPU time of exact comparison against odiff and pixelmatch, decoding included, in one run.

    python benchmarks/compare_speed.py SCREENSHOTS [--odiff PATH] [--node-modules PATH] [--pairs 60]

SCREENSHOTS holds `NAME_before.png` and `NAME_after.png` (as `page_edits.py` makes them). odiff is the native binary of
npm's `odiff-bin`; `pixelmatch` and `pngjs` are taken from a `node_modules` folder. What is absent is left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from spotchange.comparison import ComparisonOptions, compare

PIXELMATCH = """
import fs from 'fs'; import {createRequire} from 'module';
const require = createRequire(process.argv[2] + '/'); const {PNG} = require('pngjs');
const pixelmatch = (await import(process.argv[2] + '/pixelmatch/index.js')).default;
let total = 0;
for (const line of fs.readFileSync(process.argv[3], 'utf8').trim().split('\\n')) {
  const [a, b] = line.split('\\t').map(name => PNG.sync.read(fs.readFileSync(name)));
  total += pixelmatch(a.data, b.data, null, a.width, a.height, {threshold: 0, includeAA: true});
}
console.log(total);
"""

Pair = tuple[Path, Path]


def spent(children: bool) -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def milliseconds(work: Callable[[Pair], object], pairs: list[Pair], *, children: bool = False) -> float:
    """CPU milliseconds a pair, the better of three rounds."""
    rounds = []
    for _ in range(3):
        start = spent(children)
        for pair in pairs:
            work(pair)
        rounds.append((spent(children) - start) / len(pairs) * 1000)
    return min(rounds)


def make_pairs(source: Path, folder: Path, count: int) -> tuple[list[Pair], list[Pair]]:
    """Changed pairs as they are, and equal pairs whose files differ: the same pixels compressed otherwise."""
    changed, equal = [], []
    for before in sorted(source.glob("*_before.png")):
        after = before.with_name(before.name.replace("_before", "_after"))
        if len(changed) == count or not after.exists() or Image.open(before).size != (1280, 800):
            continue
        if Image.open(after).size != (1280, 800):
            continue
        if compare(before, after, ComparisonOptions(describe=False)).identical:
            continue
        changed.append((before, after))
        again = folder / before.name
        Image.open(before).save(again, compress_level=9)
        equal.append((before, again))
    return changed, equal


def run_odiff(binary: str, pair: Pair) -> None:
    subprocess.run([binary, *map(str, pair), "--threshold", "0"], capture_output=True, check=False)


def run_pixelmatch(modules: Path, pair: Pair, folder: Path) -> None:
    command = ["node", str(modules / "pixelmatch" / "bin" / "pixelmatch")]
    arguments = [*map(str, pair), str(folder / "diff.png"), "0", "true"]
    subprocess.run([*command, *arguments], stdout=subprocess.DEVNULL, check=False)


def pixelmatch_milliseconds(modules: Path, pairs: list[Pair], folder: Path) -> float:
    script, listing = folder / "run.mjs", folder / "pairs.tsv"
    script.write_text(PIXELMATCH)
    listing.write_text("\n".join("\t".join(map(str, pair)) for pair in pairs))
    start = spent(True)
    subprocess.run(["node", str(script), str(modules.resolve()), str(listing)], check=True, stdout=subprocess.DEVNULL)
    return (spent(True) - start) / len(pairs) * 1000


def tall_page() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1280x5463: the page, one with a changed word, one with a row inserted at the top."""
    generator = np.random.default_rng(17)
    page = np.full((5463, 1280, 3), 255, np.uint8)
    for top in range(40, 5400, 26):
        for left in range(60, 1100, 12):
            if generator.random() < 0.8:
                page[top : top + 12, left : left + 8] = generator.integers(0, 2, (12, 8, 1)) * 200
    word, pushed = page.copy(), page.copy()
    word[2600:2612, 300:340] = 255 - word[2600:2612, 300:340]
    pushed[90:] = page[:-90]
    pushed[:90] = (255, 240, 200)
    return page, word, pushed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("screenshots", type=Path)
    parser.add_argument("--odiff", default=shutil.which("odiff"))
    parser.add_argument("--node-modules", type=Path)
    parser.add_argument("--pairs", type=int, default=60)
    options = parser.parse_args()
    import cv2

    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        changed, equal = make_pairs(options.screenshots, folder, options.pairs)
        print(f"{len(changed)} pairs of 1280x800, {os.cpu_count()} cores; CPU milliseconds a pair")
        plain, described = ComparisonOptions(describe=False), ComparisonOptions(read_text=False)
        for title, pairs in (("changed", changed), ("equal, re-encoded", equal)):
            print(f"{title}:")
            print(f"  spotchange, verdict           {milliseconds(lambda pair: compare(*pair, plain), pairs):7.1f}")
            print(f"  spotchange, with findings     {milliseconds(lambda pair: compare(*pair, described), pairs):7.1f}")
            if options.odiff:
                took = milliseconds(lambda pair: run_odiff(options.odiff, pair), pairs, children=True)
                print(f"  odiff                         {took:7.1f}")
            if options.node_modules:
                took = pixelmatch_milliseconds(options.node_modules, pairs, folder)
                print(f"  pixelmatch, one process       {took:7.1f}")
                took = milliseconds(
                    lambda pair: run_pixelmatch(options.node_modules, pair, folder), pairs, children=True
                )
                print(f"  pixelmatch, its command       {took:7.1f}")
        page, word, pushed = tall_page()
        for name_of, array in (("page", page), ("word", word), ("pushed", pushed)):
            Image.fromarray(array).save(folder / f"{name_of}.png")
        print("1280x5463, seconds of CPU and of wall time, decoding and findings included:")
        for name_of in ("word", "pushed"):
            start, cpu = time.perf_counter(), spent(False)
            result = compare(folder / "page.png", folder / f"{name_of}.png", described)
            took = spent(False) - cpu
            print(f"  {name_of:8} {took:.2f} {time.perf_counter() - start:.2f}  {result.summary}")


if __name__ == "__main__":
    main()
