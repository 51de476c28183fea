"""Resident memory of a server under load: python benchmarks/serve_memory.py [--requests 600] [--clients 6]

Starts `spotchange serve --no-page` on a free port of this machine, sends the example pairs with a large noisy one among
every seven, and prints the server's resident memory after every tenth of the requests and once it rests.
"""

from __future__ import annotations

import argparse
import io
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

SIDES = (200, 700, 1500)  # of noisy images: the hardest to compress and to compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--clients", type=int, default=6)
    options = parser.parse_args()
    address, server = start()
    try:
        print(f"start: {resident(server)} MiB")
        pairs, noise = examples(), [(noisy(side, 0), noisy(side, 1)) for side in SIDES]
        with httpx.Client(timeout=120) as client, ThreadPoolExecutor(options.clients) as pool:

            def ask(number: int) -> int:
                before, after = noise[number // 7 % 3] if number % 7 == 0 else pairs[number % len(pairs)]
                return client.post(f"{address}/v1/caption", files={"before": before, "after": after}).status_code

            step = max(1, options.requests // 10)
            for first in range(0, options.requests, step):
                codes = list(pool.map(ask, range(first, first + step)))
                failed = sum(code != 200 for code in codes)
                print(f"{first + step} requests: {resident(server)} MiB, {failed} failed", flush=True)
        time.sleep(4)
        print(f"at rest: {resident(server)} MiB")
    finally:
        server.terminate()
        server.wait()


def start() -> tuple[str, subprocess.Popen[bytes]]:
    """A server that is ready, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "spotchange", "serve", "--no-page", "--port", str(port), "--threads", "1"]
    began = time.monotonic()
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    while server.poll() is None:
        try:
            if httpx.get(f"{address}/readyz").status_code == 200:
                print(f"ready after {time.monotonic() - began:.2f} s")
                return address, server
        except httpx.HTTPError:
            time.sleep(0.05)
    raise SystemExit("the server ended before it was ready")


def resident(server: subprocess.Popen[bytes]) -> int:
    """MiB of the process that are in memory now."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())
    return int(found.group(1)) // 1024 if found else 0


def examples() -> list[tuple[bytes, bytes]]:
    """The pairs that ship."""
    files = sorted(Path(str(resources.files("spotchange"))).glob("assets/examples/*.jpg"))
    return [(before.read_bytes(), after.read_bytes()) for after, before in zip(files[::2], files[1::2], strict=True)]


def noisy(side: int, seed: int) -> bytes:
    """A PNG that nothing compresses."""
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "PNG")
    return packed.getvalue()


if __name__ == "__main__":
    main()
