"""The server as a process: its start, its end, and what clients see when it is ended or killed under load."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from spotchange.errors import MissingExtraError
from spotchange.serving import server as running

Draw = Callable[..., bytes]
Form = Callable[[bytes, bytes], Any]
CLIENTS = 16


def refused_start(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "spotchange", "serve", *options], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_a_taken_port_is_one_line(model_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = refused_start("--model", str(model_folder), "--port", str(port))
    assert f"cannot listen on 127.0.0.1 port {port}" in told
    assert f"--port {port + 1}" in told


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    assert "no model folder" in refused_start("--model", str(tmp_path / "none"), "--port", "0")


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="'serve'"):
        running.check_extra()


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(Exception, match="cannot listen on"):
        running.bind("no.such.host.invalid", 0)


def test_leftovers_of_a_killed_server_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, other = tmp_path / f"{running.TEMPORARY}{gone.pid}.abc", tmp_path / "somebody-elses"
    for folder in (left, other):
        folder.mkdir()
        (folder / "picture.png").write_bytes(b"x")
    with running.temporary_folder() as mine:
        assert not left.exists()
        assert other.exists()
        assert mine.parent == tmp_path
        (mine / "upload").write_bytes(b"x")
    assert not mine.exists()


async def clients(
    address: str, bodies: list[tuple[dict[str, Any], str]], stop: asyncio.Event, seen: Counter[str]
) -> None:
    """Clients that ask without pause until told to stop; every request must end, one way or another."""

    async def ask(files: dict[str, Any], expected: str) -> None:
        async with httpx.AsyncClient(timeout=120) as client:
            while not stop.is_set():
                try:
                    response = await client.post(f"{address}/v1/caption", files=files)
                except httpx.TimeoutException:
                    seen["no answer"] += 1
                    continue
                except httpx.TransportError:
                    seen["connection error"] += 1
                    await asyncio.sleep(0.05)
                    continue
                if response.status_code == 200:
                    seen["right" if response.json()["caption"] == expected else "wrong"] += 1
                else:
                    seen[str(response.status_code)] += 1

    await asyncio.gather(*(ask(*body) for body in bodies))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_ended_under_load_and_back_again(
    number: signal.Signals, launch: Any, captioner: Any, draw: Draw, pair_form: Form, tmp_path: Path
) -> None:
    pairs = [(draw(2 * n), draw(2 * n + 1)) for n in range(CLIENTS)]
    bodies = [(pair_form(*pair), captioner.caption(*pair).caption) for pair in pairs]
    server = launch("--no-page")

    seen: Counter[str] = Counter()

    async def load_and_end() -> int:
        stop = asyncio.Event()
        asking = asyncio.create_task(clients(server.address, bodies, stop, seen))
        for _ in range(1800):
            await asyncio.sleep(0.1)
            if seen["right"] > CLIENTS:
                break
        code = await asyncio.to_thread(server.stop, number)
        await asyncio.sleep(0.3)
        stop.set()
        await asking
        return code

    code = asyncio.run(load_and_end())
    assert seen["right"] > CLIENTS, seen
    assert seen["connection error"] > 0, seen  # the server is gone: clients hear of it
    assert seen.keys() <= {"right", "connection error", "503"}, seen
    if number == signal.SIGTERM:
        assert code == 0
        assert not list(tmp_path.glob(f"{running.TEMPORARY}*"))
    again = launch("--no-page")
    told = httpx.post(f"{again.address}/v1/caption", files=bodies[0][0], timeout=120).json()
    assert told["caption"] == bodies[0][1]
    left = [path.name for path in tmp_path.glob(f"{running.TEMPORARY}*")]
    assert left == [f"{running.TEMPORARY}{again.process.pid}.{left[0].rpartition('.')[2]}"]


@pytest.mark.slow
def test_what_was_accepted_is_finished(launch: Any, draw: Draw) -> None:
    """A long batch is under way when SIGTERM comes: it is answered in full before the process ends."""
    import base64

    server = launch("--no-page", "--batch-size", "1", "--window", "20")
    pairs = [
        {"id": str(n), **{side: base64.b64encode(draw(n + k)).decode() for k, side in enumerate(("before", "after"))}}
        for n in range(32)
    ]

    async def scenario() -> httpx.Response:
        async with httpx.AsyncClient(timeout=180) as client:
            asking = asyncio.create_task(client.post(f"{server.address}/v1/caption/batch", json={"pairs": pairs}))
            while not asking.done():
                text = (await client.get(f"{server.address}/metrics")).text
                if "spotchange_places_taken 32.0" in text:
                    break
                await asyncio.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            return await asking

    response = asyncio.run(scenario())
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["id"] for line in lines] == [str(n) for n in range(32)]
    assert all("caption" in line for line in lines)
    assert server.process.wait(180) == 0
