"""How fast pictures become words: ViT-B/32 size, full CLIP vocabulary, greedy.

    python benchmarks/inference_speed.py                  # the device there is
    python benchmarks/inference_speed.py --device cpu --threads 2

Weights are random: speed does not depend on them. The end token is forbidden, so that every sentence takes
all its steps. GPU: bf16 weights, batches; compiled encoder unless --no-compile. CPU: fp32, one pair.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from spotchange.config.model import ModelSettings
from spotchange.models.build import build_model
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.interface import DecodingOptions


def seconds_of(work: Callable[[], object], device: torch.device, repeats: int) -> list[float]:
    """Seconds of each repetition, after warming up."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


@torch.inference_mode()
def caption(model: Clip4idc, before: torch.Tensor, after: torch.Tensor, steps: int) -> torch.Tensor:
    """All of inference from preprocessed pictures on."""
    options = DecodingOptions(max_words=steps, min_words=steps)
    return model.generate(model.encode(before, after), options).ids


def report(name: str, value: float, unit: str, **more: object) -> None:
    print(json.dumps({"figure": name, "value": round(value, 4), "unit": unit, **more}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", default="clip4idc")
    parser.add_argument("--batch", type=int, nargs="+", default=[1024])
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    settings = ModelSettings.model_validate({"preset": arguments.preset, "text": {"encoder": False}})
    torch.manual_seed(0)
    model = build_model(settings).eval()
    assert isinstance(model, Clip4idc)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else f"{arguments.threads} CPU threads"
    if device.type == "cuda":
        on_gpu(model.to(device, torch.bfloat16), arguments, machine)
    else:
        on_cpu(model, arguments, machine)


def on_gpu(model: Clip4idc, arguments: argparse.Namespace, machine: str) -> None:
    device = torch.device("cuda")

    def pictures(pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
        before, after = torch.randn(2, pairs, 3, *model.image_size, device=device, dtype=torch.bfloat16)
        return before, after

    one = pictures(1)
    report_one(model, one, device, arguments.repeats * 3, machine)
    if not arguments.no_compile:
        model.encoder.compile(dynamic=False)
    for pairs in arguments.batch:
        before, after = pictures(pairs)
        times = seconds_of(lambda: caption(model, before, after, 32), device, arguments.repeats)  # noqa: B023
        rate = pairs / statistics.median(times)
        report("greedy, 32 steps, batched", rate, "pairs/s", batch=pairs, precision="bf16", machine=machine)
        with torch.inference_mode():
            encoding = seconds_of(lambda: model.encode(before, after).tokens, device, arguments.repeats)  # noqa: B023
        report("  of it encoding", pairs / statistics.median(encoding), "pairs/s", batch=pairs)


def report_one(
    model: Clip4idc, one: tuple[torch.Tensor, torch.Tensor], device: torch.device, repeats: int, machine: str
) -> None:
    for steps in (12, 32):
        times = seconds_of(lambda: caption(model, *one, steps), device, repeats)  # noqa: B023
        milliseconds = 1000 * statistics.median(times)
        kind = "bf16" if device.type == "cuda" else "fp32"
        report(f"greedy, {steps} steps, one pair", milliseconds, "ms", precision=kind, machine=machine)


def on_cpu(model: Clip4idc, arguments: argparse.Namespace, machine: str) -> None:
    torch.set_num_threads(arguments.threads)
    before, after = torch.randn(2, 1, 3, *model.image_size)
    report_one(model, (before, after), torch.device("cpu"), arguments.repeats, machine)
    with torch.inference_mode():
        times = seconds_of(lambda: model.encode(before, after).tokens, torch.device("cpu"), arguments.repeats)
    report("  of it encoding", 1000 * statistics.median(times), "ms")


if __name__ == "__main__":
    main()
