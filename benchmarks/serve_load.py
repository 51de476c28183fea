"""Requests a second with and without batching: python benchmarks/serve_load.py --model bundled

Starts `spotchange serve` twice on a free port of this machine, once with --batch-size 1 and once with the default,
sends the same requests from the same number of clients, and prints both figures and their ratio. Also printed: how
long each server took to become ready. The two servers alternate over several rounds, so that a busy moment of the
machine does not fall on one of them alone.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

BATCHED, SINGLE = "batched", "one by one"
WARM_UP = 16  # requests


def seeded_model(preset: str, folder: Path) -> Path:
    """A model with random weights, for a machine that has no trained one."""
    import torch

    from spotchange.config.model import ModelSettings
    from spotchange.language.vocabulary import build_tokenizer
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.vision.preprocess import Preprocessor
    from spotchange.models.weights.folder import save_model

    tokenizer = build_tokenizer()
    settings = settings_for(ModelSettings.model_validate({"preset": preset}), tokenizer)
    torch.manual_seed(0)
    target = folder / preset
    save_model(
        target,
        model=build_model(settings),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=Preprocessor(image_size=settings.vision.image_size),
    )
    return target


def encoded_pairs(count: int) -> list[dict[str, tuple[str, bytes, str]]]:
    """Photo-like JPEG pairs of the size of the benchmark's images."""
    random = np.random.default_rng(0)
    pairs = []
    for _ in range(count):
        sides = {}
        for side in ("before", "after"):
            coarse = Image.fromarray(random.integers(0, 256, (20, 30, 3), dtype=np.uint8))
            stream = io.BytesIO()
            coarse.resize((480, 320), Image.Resampling.BICUBIC).save(stream, "JPEG", quality=90)
            sides[side] = (f"{side}.jpg", stream.getvalue(), "image/jpeg")
        pairs.append(sides)
    return pairs


def start(model: str, *options: str) -> tuple[subprocess.Popen[str], str, float]:
    """A ready server, its address, and how long it took."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "spotchange", "serve", "--model", model, "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"answers at (http://\S+)", line)
        if found:
            while True:
                try:
                    httpx.get(f"{found.group(1)}/readyz").raise_for_status()
                    return process, found.group(1), time.perf_counter() - started
                except httpx.HTTPError:
                    time.sleep(0.05)
        print(line, end="", file=sys.stderr)
    raise SystemExit(f"the server ended with code {process.wait()}")


async def send(address: str, pairs: list[dict[str, tuple[str, bytes, str]]], clients: int, requests: int) -> float:
    """Requests a second; any answer but 200 ends the run."""
    numbers = iter(range(requests))

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=120) as client:
            for number in numbers:
                (await client.post("/v1/caption", files=pairs[number % len(pairs)])).raise_for_status()

    started = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(clients)))
    return requests / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--preset", help="measure random weights of this preset instead of a model")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=320, help="of each round and server")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = str(seeded_model(options.preset, Path(folder))) if options.preset else options.model
        pairs = encoded_pairs(16)
        servers = {
            SINGLE: start(model, "--no-page", "--batch-size", "1", "--window", "0"),
            BATCHED: start(model, "--no-page"),
        }
        speeds: dict[str, list[float]] = {name: [] for name in servers}
        try:
            for _, address, _ in servers.values():
                asyncio.run(send(address, pairs, options.clients, WARM_UP))
            for _ in range(options.rounds):
                for name, (_, address, _) in servers.items():
                    speeds[name].append(asyncio.run(send(address, pairs, options.clients, options.requests)))
        finally:
            for process, _, _ in servers.values():
                process.terminate()
                process.wait()
        process, _, with_page = start(model)
        process.terminate()
        process.wait()
    print(f"{options.clients} clients, {options.requests} requests a round, {options.rounds} rounds")
    for name, values in speeds.items():
        rounds = ", ".join(f"{value:.1f}" for value in values)
        print(f"{name}: {statistics.median(values):.1f} requests/s (rounds: {rounds})")
    print(f"ratio {statistics.median(speeds[BATCHED]) / statistics.median(speeds[SINGLE]):.2f}")
    print(f"ready after {servers[BATCHED][2]:.1f} s without the page, {with_page:.1f} s with it")


if __name__ == "__main__":
    main()
