"""A tiny seeded model folder, and real servers on free ports."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.answering import Captioner, load

OUTSIDE = "outside.log"
KEY = "open-sesame"
# Loaded by every server's interpreter: writes down each name it looks up and each address it calls beyond loopback.
WATCH = f"""
import sys
def watch(event, arguments):
    host = None
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    if isinstance(host, bytes):
        host = host.decode()
    if host and host not in ("127.0.0.1", "localhost", "::1"):
        with open({OUTSIDE!r}, "a") as log:
            log.write(event + " " + host + chr(10))
sys.addaudithook(watch)
"""
READY_SECONDS = 240  # a busy machine; benchmarks/serve_load.py prints how long it really takes


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, large enough that answers differ from pair to pair."""
    from spotchange.config.model import ModelSettings
    from spotchange.language.vocabulary import build_tokenizer
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.vision.preprocess import Preprocessor
    from spotchange.models.weights.folder import save_model

    tokenizer = build_tokenizer()
    settings = settings_for(ModelSettings.model_validate({"preset": "spotchange-tiny"}), tokenizer)
    torch.manual_seed(0)
    model = build_model(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.08 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("model") / "tiny"
    preprocessor = Preprocessor(image_size=settings.vision.image_size)
    save_model(folder, model=model, settings=settings, tokenizer=tokenizer, preprocessor=preprocessor)
    return folder


@pytest.fixture(scope="session")
def captioner(model_folder: Path) -> Captioner:
    return load(model_folder, device="cpu")


def image(number: int, size: tuple[int, int] = (72, 48)) -> Image.Image:
    """An image of coarse colours that no other number gives."""
    random = np.random.default_rng(number)
    coarse = random.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.NEAREST)


def packed(image: Image.Image, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def form(before: bytes, after: bytes) -> dict[str, tuple[str, bytes, str]]:
    return {"before": ("before.png", before, "image/png"), "after": ("after.png", after, "image/png")}


@pytest.fixture(scope="session")
def draw() -> Callable[..., bytes]:
    """Encoded images by number."""
    return lambda number, size=(72, 48), kind="PNG": packed(image(number, size), kind)


@pytest.fixture(scope="session")
def pair_form() -> Callable[[bytes, bytes], dict[str, tuple[str, bytes, str]]]:
    return form


@dataclass
class RunningServer:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    folder: Path
    address: str = ""
    log: list[str] = field(default_factory=list)
    seconds_to_ready: float = 0.0
    reader: threading.Thread = field(default_factory=threading.Thread)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 180) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout)
        self.reader.join(60)
        called = self.folder / OUTSIDE
        assert not called.exists(), called.read_text()
        return code


def start_server(model: Path, *options: str, folder: Path, **environment: str) -> RunningServer:
    """Start `spotchange serve` on a free port and wait until it is ready."""
    (folder / "sitecustomize.py").write_text(WATCH)
    search = os.pathsep.join(part for part in (str(folder), os.environ.get("PYTHONPATH")) if part)
    environment |= {"TMPDIR": str(folder), "PYTHONPATH": search}
    environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    started = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "spotchange",
            "serve",
            "--model",
            str(model),
            "--port",
            "0",
            "--device",
            "cpu",
            *options,
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=os.environ | environment,
    )
    server = RunningServer(process, folder)

    def read_log() -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                server.log.append(line)
                found = re.search(r"answers at (http://\S+)", line)
                if found:
                    server.address = found.group(1)

    server.reader = threading.Thread(target=read_log, daemon=True)
    server.reader.start()
    until = started + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if server.address and httpx.get(f"{server.address}/readyz", timeout=5).status_code == 200:
                server.seconds_to_ready = time.monotonic() - started
                return server
        time.sleep(0.1)
    process.kill()
    raise AssertionError(f"the server did not become ready:\n{''.join(server.log)}")


@pytest.fixture
def launch(model_folder: Path, tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """Start servers that are ended with the test."""
    started: list[RunningServer] = []

    def start(*options: str, **environment: str) -> RunningServer:
        started.append(start_server(model_folder, *options, folder=tmp_path, **environment))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def api_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server without the page, for a whole test file."""
    server = start_server(model_folder, "--no-page", folder=tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def page_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the page, for a whole test file."""
    server = start_server(model_folder, folder=tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def locked_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the page and a key, for a whole test file."""
    server = start_server(model_folder, folder=tmp_path_factory.mktemp("locked"), SPOTCHANGE_API_KEY=KEY)
    yield server
    server.stop()
