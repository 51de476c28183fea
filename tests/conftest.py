"""What many tests share: the place of optional local data, and tools that CI must not skip."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scripted_server import Script, Server

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).parent))  # helpers that tests of several folders share
# Workers share the cores: one thread each, read when numpy and torch are first imported, also by commands under test.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no worker is left alone with one at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def need(available: bool, what: str) -> None:
    """Skip for want of `what` at home, fail for it under CI."""
    if available:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing; CI must not skip this test")
    pytest.skip(f"{what} is missing")


@pytest.fixture(scope="session")
def java() -> str:
    """Path of a Java runtime."""
    path = shutil.which("java")
    need(path is not None, "a Java runtime")
    return str(path)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium browser."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    need(path is not None, "Chromium")
    return str(path)


@pytest.fixture(scope="session")
def openssl() -> str:
    """Path of the program that makes certificates."""
    path = shutil.which("openssl")
    need(path is not None, "openssl")
    return str(path)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of optional local data (real images, annotations); tests that need it skip without it."""
    folder = Path(os.environ.get("SPOTCHANGE_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no local data folder (set SPOTCHANGE_SHARED)")
    return folder


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts OpenAI-compatible servers that answer by a script, and ends them; no test waits between two tries."""
    from scripted_server import Server

    monkeypatch.setattr("spotchange.answering.vlm.server.backoff", lambda tries: 0.01)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # never the user's replies
    servers: list[Server] = []

    def start(script: Script, *, certificate: Path | None = None) -> Server:
        server = Server(script, certificate=certificate)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
