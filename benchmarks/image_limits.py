"""What the most expensive accepted images cost: peak memory and CPU seconds of a pair, each in its own process.

python benchmarks/image_limits.py [--model FOLDER]
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import time

CASES = {
    "small": ("RGB", (480, 320)),
    "screen": ("RGB", (1920, 1080)),
    "page": ("RGB", (1280, 30_000)),
    "strip": ("RGB", (650, 65_000)),
    "square": ("RGB", (6300, 6300)),
    "clear": ("RGBA", (6300, 6300)),
    "deep": ("I;16", (6300, 6300)),
    "largest": ("RGB", (10_000, 10_000)),
    "largest clear": ("RGBA", (10_000, 10_000)),
}


def measure(name: str, model: str) -> dict[str, object]:
    """In this process: answer one pair of flat images and draw its heat map."""
    from PIL import Image

    from spotchange import load

    mode, size = CASES[name]
    files = []
    for level in (90, 110):
        color = {"RGB": (level, 90, 90), "RGBA": (level, 90, 90, 128), "I;16": 256 * level}[mode]
        packed = io.BytesIO()
        Image.new(mode, size, color).save(packed, "PNG")
        files.append(packed.getvalue())
    captioner = load(model, device="cpu")
    captioner.caption(Image.new("RGB", (64, 64)), Image.new("RGB", (64, 64), "red"))
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began = time.process_time()
    answer = captioner.answer(*files)
    answered = time.process_time() - began
    answer.figure()
    drawn = time.process_time() - began - answered
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "case": name,
        "size": f"{mode} {size[0]}x{size[1]}",
        "sent_kB": sum(map(len, files)) // 1000,
        "base_MiB": round(base),
        "peak_MiB": round(peak),
        "bytes_per_pixel": round((peak - base) * 2**20 / (2 * size[0] * size[1]), 1),
        "answer_cpu_s": round(answered, 2),
        "heat_map_cpu_s": round(drawn, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--case", choices=CASES)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(arguments.case, arguments.model)))
        return
    for name in CASES:
        command = [sys.executable, __file__, "--model", arguments.model, "--case", name]
        done = subprocess.run(command, capture_output=True, text=True)
        print(done.stdout.strip() or f"{name}: {done.stderr.splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
