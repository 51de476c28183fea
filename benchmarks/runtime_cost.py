"""What captions cost on onnxruntime and on torch, side by side on this machine, with ratios.

    python benchmarks/runtime_cost.py [--int8 FOLDER] [--pairs 64] [--threads 2] [--repeats 5] [--serve]

Runtimes take turns, so that a machine with other work slows both; ratios then still mean something, seconds do not.
Cold: the whole command as a process, imports included. Memory: the largest resident size of a process that answers a
batch of 16. Serve: from the start of `spotchange serve --no-page` to its first good /readyz.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib import resources
from pathlib import Path
from typing import Any

EXAMPLES = Path(str(resources.files("spotchange"))) / "assets" / "examples"
PAIR = (EXAMPLES / "2_a_new_colour_before.jpg", EXAMPLES / "2_a_new_colour_after.jpg")
WANTED = {"cold": 0.9, "one_more": 0.10, "pairs_per_second": 10.0, "memory_mib": 450.0, "serve_ready": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--int8", help="a folder exported with --int8, as a third column")
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help="also time how soon `serve` is ready")
    parser.add_argument("--measure", nargs=2, metavar=("MODEL", "RUNTIME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure, threads=options.threads, pairs=options.pairs)))
        return
    systems = {"onnx": (options.model, "onnx"), "torch": (options.model, "torch")}
    if options.int8:
        systems["int8"] = (options.int8, "onnx")
    found: dict[str, dict[str, list[float]]] = {name: {} for name in systems}
    for _ in range(options.repeats):
        for name, (model, runtime) in systems.items():
            values = {"cold": cold(model, runtime), **warm(model, runtime, options)}
            if options.serve:
                values["serve_ready"] = serve_ready(model, runtime)
            for key, value in values.items():
                found[name].setdefault(key, []).append(value)
    report(found)


def cold(model: str, runtime: str) -> float:
    """Seconds of `spotchange caption` from nothing."""
    command = [sys.executable, "-m", "spotchange", "caption", *map(str, PAIR), "--model", model, "--runtime", runtime]
    started = time.perf_counter()
    subprocess.run([*command, "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def warm(model: str, runtime: str, options: argparse.Namespace) -> dict[str, float]:
    """`measure` in a process of its own, so that memory is not shared with the other runtime."""
    command = [sys.executable, __file__, "--measure", model, runtime]
    command += ["--threads", str(options.threads), "--pairs", str(options.pairs)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    values: dict[str, float] = json.loads(told)
    return values


def measure(model: str, runtime: str, *, threads: int, pairs: int) -> dict[str, float]:
    """A loaded model: one more pair, many pairs, memory."""
    from spotchange.answering import load

    captioner = load(model, runtime=runtime, device="cpu", threads=threads)
    captioner.caption(*PAIR)
    single = []
    for _ in range(7):
        started = time.perf_counter()
        captioner.caption(*PAIR)
        single.append(time.perf_counter() - started)
    started = time.perf_counter()
    count = sum(1 for _ in captioner.caption_many([PAIR] * pairs, batch_size=16))
    return {
        "one_more": statistics.median(single),
        "pairs_per_second": count / (time.perf_counter() - started),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def serve_ready(model: str, runtime: str) -> float:
    """Seconds until a server without the page answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "spotchange", "serve", "--no-page", "--port", str(port), "--device", "cpu"]
    started = time.perf_counter()
    server = subprocess.Popen([*command, "--model", model, "--runtime", runtime], stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1)
                return time.perf_counter() - started
            except (urllib.error.URLError, OSError):
                time.sleep(0.01)
        raise SystemExit("the server ended before it was ready")
    finally:
        server.terminate()
        server.wait()


def report(found: dict[str, dict[str, list[float]]]) -> None:
    """Medians, and how much better than torch: above 1 is faster or smaller."""
    middle: dict[str, dict[str, Any]] = {
        name: {key: statistics.median(each) for key, each in values.items()} for name, values in found.items()
    }
    print(f"{'':18}" + "".join(f"{name:>10}" for name in middle) + "    wanted   onnx/torch   int8/torch")
    for key, torch_value in middle["torch"].items():
        cells = "".join(f"{middle[name][key]:10.2f}" for name in middle)
        ratios = ""
        for name in ("onnx", "int8"):
            if name in middle:
                better = (
                    middle[name][key] / torch_value if key == "pairs_per_second" else torch_value / middle[name][key]
                )
                ratios += f"{better:12.2f}x"
        print(f"{key:18}{cells}{WANTED[key]:10.2f}{ratios}")


if __name__ == "__main__":
    main()
