"""How fast the world and the training stream are: scenes and pairs a second, sampling and rejection included.

python benchmarks/stream_speed.py [--device cuda] [--seconds 10] [--scenes 1024] [--size 224] [--profile]

Pairs are accepted ones. The clock starts at a chunk of scenes that is not sampled yet and ends in the middle of
another, so sampling is never counted too low. With --profile a CUDA device also says where its time goes.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch

from spotchange.config.scenes import scene_preset
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import SceneStream


def wait(device: str) -> None:
    """Count work that is done, not work that is queued."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def time_world(device: str, scenes: int, seconds: float) -> dict[str, Any]:
    """Single attempts at placing objects, and placement with rejection by what is visible."""
    world = World(scene_preset("clevr-change"), seed=1, device=device)
    starts = torch.zeros(scenes, dtype=torch.int32, device=device) if device != "cpu" else np.zeros(scenes, np.int32)

    def numbers(first: int) -> Any:
        return torch.arange(first, first + scenes, device=device) if device != "cpu" else first + np.arange(scenes)

    world.draw(numbers(0), starts, limit=1)
    world.scenes(np.arange(scenes))
    wait(device)
    placed, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        world.draw(numbers(placed), starts, limit=1)
        placed += scenes
    wait(device)
    placed_rate = placed / (time.perf_counter() - began)
    world.tried = world.accepted = accepted = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        world.scenes(accepted + np.arange(scenes))
        accepted += scenes
    wait(device)
    return {
        "placement attempts/s": round(placed_rate, 1),
        "accepted scenes/s": round(accepted / (time.perf_counter() - began), 1),
        "accepted share of placed": round(world.accepted / world.tried, 3),
    }


def open_stream(device: str, quality: str, scenes: int, size: int, look: float) -> SceneStream:
    """A stream that has compiled what it needs and stands before a chunk that is not sampled yet."""
    settings = scene_preset("clevr-change", look=dict.fromkeys(("lamps", "materials", "blur", "noise", "jpeg"), look))
    stream = SceneStream(
        settings, device=device, seed=1, scenes_per_batch=scenes, width=size, height=size, quality=quality
    )
    next(stream)
    stream.load_state_dict({"seed": 1, "next_scene": 10**9})
    wait(device)
    return stream


def time_stream(device: str, quality: str, scenes: int, size: int, seconds: float, look: float) -> dict[str, Any]:
    """Whole batches: scenes, images, captions, truth per patch."""
    stream = open_stream(device, quality, scenes, size, look)
    pairs, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        pairs += len(next(stream).before)
        wait(device)
    return {
        "quality": quality,
        "look": look,
        "pairs/s": round(pairs / (time.perf_counter() - began), 1),
        "pairs": pairs,
    }


def print_profile(device: str, quality: str, scenes: int, size: int, look: float, rows: int = 16) -> None:
    """Which kernels take the time of one chunk of scenes, sampled and drawn."""
    from torch.profiler import ProfilerActivity, profile

    stream = open_stream(device, quality, scenes, size, look)
    batches = stream.scenes_per_chunk // scenes
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        began = time.perf_counter()
        for _ in range(batches):
            next(stream)
        wait(device)
        wall = time.perf_counter() - began
    drawn = batches * scenes
    events = [
        event for event in profiler.key_averages() if event.self_device_time_total and not event.self_cpu_time_total
    ]
    busy = sum(event.self_device_time_total for event in events)
    print(f"{quality}, look {look}: {wall / drawn * 1e6:.1f} us a scene, {busy / drawn:.1f} us of them on the device")
    for event in sorted(events, key=lambda event: -event.self_device_time_total)[:rows]:
        name = event.key.split("[abi")[0].removeprefix("spotchange::scenes::")[:72]
        print(f"  {event.self_device_time_total / drawn:7.2f} us {event.count:6d}x  {name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--scenes", type=int, help="scenes a batch")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--randomised", action="store_true", help="also with domain randomisation")
    parser.add_argument("--profile", action="store_true", help="also print the time of every kernel (CUDA)")
    arguments = parser.parse_args()
    on_cpu = arguments.device == "cpu"
    scenes = arguments.scenes or (4 if on_cpu else 1024)
    name = "cpu" if on_cpu else torch.cuda.get_device_name(arguments.device)
    print(json.dumps({"device": name, "size": arguments.size, "scenes a batch": scenes}), flush=True)
    print(json.dumps(time_world(arguments.device, 64 if on_cpu else 8192, arguments.seconds)), flush=True)
    for quality in ("fast", "faithful"):
        for look in (0.0, 1.0) if arguments.randomised else (0.0,):
            result = time_stream(arguments.device, quality, scenes, arguments.size, arguments.seconds, look)
            print(json.dumps(result), flush=True)
            if arguments.profile and not on_cpu:
                print_profile(arguments.device, quality, scenes, arguments.size, look)


if __name__ == "__main__":
    main()
