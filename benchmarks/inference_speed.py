"""How fast images become words: ViT-B/32 size, full CLIP vocabulary, greedy.

    python benchmarks/inference_speed.py                  # the device there is
    python benchmarks/inference_speed.py --device cpu --threads 2

Weights are random: speed does not depend on them. The end token is forbidden, so that every sentence takes
all its steps. GPU: bf16 weights, batches; blocks that see images are compiled unless --no-compile; --profile
lists the kernels of a batch. CPU: fp32, one pair; how fast memory can be read is measured beside it, since every
word reads the decoder's weights once.
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
from spotchange.training.compilation import REGIONS


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
    """All of inference from preprocessed images on."""
    options = DecodingOptions(max_words=steps, min_words=steps)
    return model.generate(model.encode(before, after), options).ids


def report(name: str, value: float, unit: str, **more: object) -> None:
    print(json.dumps({"figure": name, "value": round(value, 4), "unit": unit, **more}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--preset", default="clip4idc")
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--profile", action="store_true")
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

    def images(pairs: int) -> tuple[torch.Tensor, torch.Tensor]:
        before, after = torch.randn(2, pairs, 3, *model.image_size, device=device, dtype=torch.bfloat16)
        return before, after

    one = images(1)
    report_one(model, one, device, arguments.repeats * 3, machine)
    if not arguments.no_compile:
        for module in model.modules():
            if isinstance(module, REGIONS):
                module.forward = torch.compile(module.forward, dynamic=False)
    for pairs in arguments.batch:
        report_batch(model, images(pairs), arguments, machine)


@torch.inference_mode()
def report_batch(
    model: Clip4idc, images: tuple[torch.Tensor, torch.Tensor], arguments: argparse.Namespace, machine: str
) -> None:
    device, pairs = images[0].device, len(images[0])

    def rate(work: Callable[[], object]) -> float:
        return pairs / statistics.median(seconds_of(work, device, arguments.repeats))

    everything = rate(lambda: caption(model, *images, 32))
    report("greedy, 32 steps, batched", everything, "pairs/s", batch=pairs, precision="bf16", machine=machine)
    report("  of it encoding", rate(lambda: model.encode(*images).tokens), "pairs/s", batch=pairs)
    tokens, captioner = model.encode(*images).tokens, model.captioner
    assert captioner is not None
    report("  of it reading before the first word", rate(lambda: captioner.visual_keys_values(tokens)), "pairs/s")
    if arguments.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            caption(model, *images, 32)
            torch.cuda.synchronize()
        kernels = sorted(((e.device_time_total / 1e3, e.count, e.key) for e in profile.key_averages()), reverse=True)
        for milliseconds, count, name in kernels[:25]:
            print(f"{milliseconds:9.2f} ms {count:5} x {name[:100]}", flush=True)


def report_one(
    model: Clip4idc, one: tuple[torch.Tensor, torch.Tensor], device: torch.device, repeats: int, machine: str
) -> None:
    for steps in (12, 32):
        times = seconds_of(lambda: caption(model, *one, steps), device, repeats)  # noqa: B023
        kind, best = "bf16" if device.type == "cuda" else "fp32", round(1000 * min(times), 2)
        middle = 1000 * statistics.median(times)
        report(f"greedy, {steps} steps, one pair", middle, "ms", best=best, precision=kind, machine=machine)


def on_cpu(model: Clip4idc, arguments: argparse.Namespace, machine: str) -> None:
    torch.set_num_threads(arguments.threads)
    before, after = torch.randn(2, 1, 3, *model.image_size)
    report_one(model, (before, after), torch.device("cpu"), arguments.repeats, machine)
    with torch.inference_mode():
        times = seconds_of(lambda: model.encode(before, after).tokens, torch.device("cpu"), arguments.repeats)
    report("  of it encoding", 1000 * statistics.median(times), "ms", best=round(1000 * min(times), 2))
    many = torch.ones(50_000_000)
    speed = many.nbytes / min(seconds_of(many.sum, torch.device("cpu"), arguments.repeats))
    report("memory read", speed / 1e9, "GB/s")
    # Cross-attention's keys and values are made once a pair; all other weights of a step are read for every word.
    decoder = model.captioner
    assert decoder is not None
    once = sum(
        each.numel()
        for name, each in decoder.named_parameters()
        if name.startswith("encoder.") or "cross.key_value" in name
    )
    read = 4 * (sum(each.numel() for each in decoder.parameters()) - once + model.words.words.weight.numel())
    report("  at least for 32 words", 32e3 * read / speed, "ms", megabytes_a_word=round(read / 1e6, 1))


if __name__ == "__main__":
    main()
