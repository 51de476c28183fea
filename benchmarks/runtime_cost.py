"""What captions cost on onnxruntime and on torch, side by side on this machine, with ratios.

    python benchmarks/runtime_cost.py [--other FOLDER] [--pairs 64] [--threads 2] [--repeats 5] [--serve]
    python benchmarks/runtime_cost.py --grid 1x1 2x1 1x2 2x2    threads of onnxruntime x callers at the same time
    python benchmarks/runtime_cost.py --product                 the encoder's matrix products alone: what no graph beats

Runtimes take turns, so that a machine with other work slows both; ratios then still mean something, seconds do not.
Cold: the whole command as a process, imports included, with compiled bytecode as pip leaves it. CPU: user and system
seconds of all threads, which other work on the machine changes least. Memory: the largest resident size of a process
that answers a batch of 16. Serve: from the start of `spotchange serve --no-page` to its first good /readyz.
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
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

EXAMPLES = Path(str(resources.files("spotchange"))) / "assets" / "examples"
PAIR = (EXAMPLES / "2_a_new_colour_before.jpg", EXAMPLES / "2_a_new_colour_after.jpg")
WANTED = {"cold": 0.9, "one_more": 0.10, "pairs_per_second": 10.0, "memory_mib": 450.0, "serve_ready": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--other", help="another exported folder, such as one with fp16 weights, as a third column")
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help="also time how soon `serve` is ready")
    parser.add_argument(
        "--grid", nargs="+", metavar="THREADSxCALLERS", help="only onnxruntime, shared out in these ways"
    )
    parser.add_argument("--product", action="store_true", help="GFLOP/s of matrix products of the encoder's sizes")
    parser.add_argument("--share", metavar="THREADSxCALLERS", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, metavar=("MODEL", "RUNTIME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure, threads=options.threads, pairs=options.pairs)))
        return
    if options.share:
        print(json.dumps(shared_out(options.model, *map(int, options.share.split("x")), pairs=options.pairs)))
        return
    if options.product:
        for columns, rows in ((384, 1152), (384, 384), (384, 1536), (1536, 384)):
            print(f"434x{columns} by {columns}x{rows}: {product(columns, rows):.1f} GFLOP/s on one core")
        return
    if options.grid:
        grid(options)
        return
    systems = {"onnx": (options.model, "onnx"), "torch": (options.model, "torch")}
    if options.other:
        systems["other"] = (options.other, "onnx")
    found: dict[str, dict[str, list[float]]] = {name: {} for name in systems}
    for _ in range(options.repeats):
        for name, (model, runtime) in systems.items():
            values = {**cold(model, runtime), **warm(model, runtime, options)}
            if options.serve:
                values["serve_ready"] = serve_ready(model, runtime)
            for key, value in values.items():
                found[name].setdefault(key, []).append(value)
    report(found)


def cold(model: str, runtime: str) -> dict[str, float]:
    """Seconds of `spotchange caption` from nothing, by the clock and of CPU."""
    command = [sys.executable, "-m", "spotchange", "caption", *map(str, PAIR), "--model", model, "--runtime", runtime]
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started, used = time.perf_counter(), cpu_seconds(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--device", "cpu"], check=True, stdout=subprocess.DEVNULL, env=compiled)
    return {"cold": time.perf_counter() - started, "cold_cpu": cpu_seconds(resource.RUSAGE_CHILDREN) - used}


def cpu_seconds(who: int) -> float:
    """User and system seconds of this process, or of its children that have ended."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


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
    started, used = time.perf_counter(), cpu_seconds(resource.RUSAGE_SELF)
    count = sum(1 for _ in captioner.caption_many([PAIR] * pairs, batch_size=16))
    return {
        "one_more": statistics.median(single),
        "pairs_per_second": count / (time.perf_counter() - started),
        "cpu_per_pair": (cpu_seconds(resource.RUSAGE_SELF) - used) / count,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def grid(options: argparse.Namespace) -> None:
    """Each way of sharing the cores out, by turns, every time in a process of its own; medians."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in options.grid}
    for _ in range(options.repeats):
        for way in options.grid:
            command = [
                sys.executable,
                __file__,
                "--share",
                way,
                "--model",
                options.model,
                "--pairs",
                str(options.pairs),
            ]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[way].append(json.loads(told))
    print(f"{'threads x callers':20}{'pairs/s':>10}{'CPU s/pair':>12}{'MiB':>8}")
    for way, values in found.items():
        speed, cpu, memory = (
            statistics.median(each[key] for each in values)
            for key in ("pairs_per_second", "cpu_per_pair", "memory_mib")
        )
        print(f"{way:20}{speed:10.2f}{cpu:12.3f}{memory:8.0f}")


def shared_out(model: str, threads: int, callers: int, *, pairs: int) -> dict[str, float]:
    """So many callers at once, each with one pair after the other, on an onnxruntime of so many threads."""
    from spotchange.answering import load

    captioner = load(model, runtime="onnx", threads=threads)
    captioner.caption(*PAIR)
    started, used = time.perf_counter(), cpu_seconds(resource.RUSAGE_SELF)
    with ThreadPoolExecutor(max_workers=callers) as pool:
        count = len(list(pool.map(lambda pair: captioner.caption(*pair), [PAIR] * pairs)))
    return {
        "pairs_per_second": count / (time.perf_counter() - started),
        "cpu_per_pair": (cpu_seconds(resource.RUSAGE_SELF) - used) / count,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def product(inner: int, outer: int, tokens: int = 434) -> float:
    """The best of many tries on one thread, in GFLOP/s; the smaller it is, the more other work there was."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.standard_normal((inner, outer)).astype(np.float32), "weights")
    seen = helper.make_tensor_value_info("x", TensorProto.FLOAT, [tokens, inner])
    told = helper.make_tensor_value_info("y", TensorProto.FLOAT, [tokens, outer])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weights"], ["y"])], "product", [seen], [told], [weights]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = {"x": random.standard_normal((tokens, inner)).astype(np.float32)}
    seconds = []
    for _ in range(200):
        started = time.perf_counter()
        session.run(None, x)
        seconds.append(time.perf_counter() - started)
    return 2 * tokens * inner * outer / min(seconds) / 1e9


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
    print(f"{'':18}" + "".join(f"{name:>10}" for name in middle) + "    wanted   onnx/torch  other/torch")
    for key, torch_value in middle["torch"].items():
        cells = "".join(f"{middle[name][key]:10.2f}" for name in middle)
        ratios = ""
        for name in ("onnx", "other"):
            if name in middle:
                better = (
                    middle[name][key] / torch_value if key == "pairs_per_second" else torch_value / middle[name][key]
                )
                ratios += f"{better:12.2f}x"
        wanted = f"{WANTED[key]:10.2f}" if key in WANTED else " " * 10
        print(f"{key:18}{cells}{wanted}{ratios}")


if __name__ == "__main__":
    main()
