"""The gateway in front of everything: other sites, slow and endless bodies, guessed keys, idle connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from spotchange.serving.attempts import MOST_FAILURES, WITHIN_SECONDS, Attempts
from spotchange.serving.connections import ImpatientProtocol
from spotchange.serving.engine.meter import Meter
from spotchange.serving.guard import Guard
from spotchange.serving.page.gateway import PageGateway
from spotchange.serving.page.sweeping import Sweeper
from spotchange.serving.settings import ServerSettings


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Reads the whole body, as an application that swallows what goes wrong with it."""
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            size += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
    except ConnectionError:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"it broke"})
        raise
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


def ask(settings: ServerSettings, method: str, path: str, **sent: Any) -> httpx.Response:
    guard = Guard(api=echo, page=echo, settings=settings, meter=Meter())

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app=guard, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
            return await client.request(method, path, **sent)

    return asyncio.run(go())


@pytest.mark.parametrize("path", ["/v1/caption", "/gradio_api/queue/join", "/login"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:8000"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8000"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:9000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
    ids=str,
)
def test_pages_of_other_sites_may_not_post(path: str, headers: dict[str, str], status: int) -> None:
    assert ask(ServerSettings(), "POST", path, headers=headers).status_code == status


def test_following_a_link_is_allowed() -> None:
    assert ask(ServerSettings(), "GET", "/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


async def pieces(count: int, size: int, wait: float = 0.0) -> AsyncIterator[bytes]:
    for _ in range(count):
        await asyncio.sleep(wait)
        yield bytes(size)


@pytest.mark.parametrize("path", ["/v1/caption/batch", "/gradio_api/upload"])
def test_an_endless_body_is_413_whatever_the_application_makes_of_it(path: str) -> None:
    settings = ServerSettings(max_request_bytes=10_000)
    assert ask(settings, "POST", path, content=pieces(9, 1000)).text == "9000"
    answer = ask(settings, "POST", path, content=pieces(20, 1000))
    assert answer.status_code == 413
    assert answer.json()["type"].endswith("request-too-large")


def test_calls_of_the_page_are_short() -> None:
    """What is parsed takes many times its size; only uploads, which go to the disk, are long."""
    settings = ServerSettings(max_call_bytes=1000)
    assert ask(settings, "POST", "/gradio_api/queue/join", content=bytes(1000)).text == "1000"
    assert ask(settings, "POST", "/gradio_api/queue/join", content=bytes(1001)).status_code == 413
    assert ask(settings, "POST", "/gradio_api/queue/join", content=pieces(2, 900)).status_code == 413
    assert ask(settings, "POST", "/gradio_api/upload", content=bytes(1001)).text == "1001"


def test_bodies_in_memory_are_bounded_together() -> None:
    """Each of many requests may be as long as is allowed, but not all at once."""
    settings = ServerSettings(max_request_bytes=10_000, max_held_bytes=15_000)
    release, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        async def held(message: Any) -> None:
            arrived.release()
            await release.wait()
            await send(message)

        await echo(scope, receive, held)

    guard = Guard(api=slow, page=None, settings=settings, meter=Meter())

    async def go() -> list[int]:
        transport = httpx.ASGITransport(app=guard, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:

            async def post() -> int:
                return (await client.post("/v1/caption/batch", content=bytes(8000))).status_code

            asked = []
            for _ in range(2):
                asked.append(asyncio.ensure_future(post()))
                await arrived.acquire()
            release.set()
            return [*await asyncio.gather(*asked), await post()]

    assert asyncio.run(go()) == [200, 503, 200]


def test_a_trickled_body_of_the_page_is_408() -> None:
    settings = ServerSettings(body_seconds=0.2, slowest_bytes=10**6)
    answer = ask(settings, "POST", "/gradio_api/upload", content=pieces(50, 1, wait=0.02))
    assert answer.status_code == 408
    patient = ServerSettings(body_seconds=60, slowest_bytes=10**6)
    assert ask(patient, "POST", "/gradio_api/upload", content=pieces(3, 1, wait=0.01)).text == "3"


def test_wrong_keys_are_counted() -> None:
    now = [0.0]
    attempts = Attempts(clock=lambda: now[0])
    for number in range(MOST_FAILURES):
        assert attempts.refusal("a") is None, number
        attempts.failed("a")
    refusal = attempts.refusal("a")
    assert refusal is not None
    assert refusal.status == 429
    assert attempts.refusal("b") is None
    now[0] = WITHIN_SECONDS + 1
    assert attempts.refusal("a") is None


def test_guessing_ends_on_the_page_and_in_the_api(locked_server: Any) -> None:
    with httpx.Client(base_url=locked_server.address, timeout=120) as client:
        statuses = [
            client.post("/login", data={"username": "me", "password": f"guess {number}"}).status_code
            for number in range(MOST_FAILURES + 2)
        ]
        assert statuses == [400] * MOST_FAILURES + [429] * 2
        right = client.get("/v1/models", headers={"Authorization": "Bearer open-sesame"})
        assert right.status_code == 429
        assert int(right.headers["retry-after"]) <= WITHIN_SECONDS + 1
        assert client.get("/healthz").status_code == 200


HEAD_SECONDS = 3.0  # a busy machine may take one between connecting and sending


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """A server whose clients have that long for a request's head, or as a test says."""
    monkeypatch.setattr("spotchange.serving.connections.HEAD_SECONDS", getattr(request, "param", HEAD_SECONDS))
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(echo, http=ImpatientProtocol, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join(120)
    listening.close()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=120)


@pytest.mark.parametrize("impatient", [0.5], indirect=True)
@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nHost: local", b"GET / HT"])
def test_half_open_connections_end(impatient: Any, begin: bytes) -> None:
    # A busy machine may end it before anything was sent.
    with connect(impatient) as half, contextlib.suppress(ConnectionError):
        half.sendall(begin)
        assert half.recv(1000) == b""


def test_a_head_that_trickles_in_ends_also_after_a_whole_request(impatient: Any) -> None:
    with connect(impatient) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in slow.recv(10_000)
        assert any(_is_closed(slow) for _ in range(2400))


def _is_closed(connection: socket.socket) -> bool:
    time.sleep(0.05)
    try:
        connection.sendall(b"G")
    except OSError:
        return True
    return False


def test_a_whole_request_is_answered_however_long_it_takes(impatient: Any) -> None:
    with connect(impatient) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        # The application waits for the body; whether that is too long is not the protocol's to say.
        time.sleep(HEAD_SECONDS + 0.5)
        slow.sendall(b"xy")
        assert b"200 OK" in slow.recv(10_000)


def test_unknown_parameters_are_an_error(api_server: Any, draw: Any, pair_form: Any) -> None:
    with httpx.Client(base_url=api_server.address, timeout=120) as client:
        files = pair_form(draw(1), draw(2))
        wrong = client.post("/v1/caption?treshold=0.9", files=files)
        assert wrong.status_code == 422
        assert "'treshold'" in wrong.json()["detail"]
        assert "threshold" in wrong.json()["detail"]
        assert client.post("/v1/caption?threshold=0.9", files=files).status_code == 200
        for path in ("/v1/models", "/healthz", "/metrics", "/docs", "/openapi.json"):
            assert client.get(f"{path}?x=1").status_code == 422
            assert client.get(path).status_code == 200


def test_docs_need_nobody_else(api_server: Any) -> None:
    page = httpx.get(f"{api_server.address}/docs", timeout=120)
    assert "POST /v1/caption" in page.text
    assert "openapi.json" in page.text
    assert "<script" not in page.text
    assert "http://" not in page.text.replace(api_server.address, "")


def test_what_pages_leave_is_swept_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "icon.png").write_bytes(bytes(500))
    sweeper = Sweeper(tmp_path, kept_seconds=60, most_bytes=1000)
    try:
        assert sweeper.has_room(1000)
        for name in ("half", "other/whole"):  # of an upload that was broken off, and one that was not
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(bytes(300))
        assert not sweeper.has_room(500)
        assert sweeper.has_room(400)
        old = time.time() - 100
        for path in [*tmp_path.rglob("*"), tmp_path / "other"]:
            os.utime(path, (old, old))
        sweeper.sweep()
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["icon.png"]
        assert sweeper.has_room(1000)
    finally:
        sweeper.close()


def test_problems_are_json(api_server: Any) -> None:
    answer = httpx.post(f"{api_server.address}/v1/caption", headers={"Origin": "http://evil.example"}, timeout=120)
    assert json.loads(answer.text)["type"].endswith("cross-site")


def test_uploads_that_begin_together_share_the_room() -> None:
    """What has not arrived yet counts as well; an upload that does not say how long it is, as the longest."""
    waiting, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        arrived.release()
        await waiting.wait()
        await echo(scope, receive, send)

    async def go() -> list[int]:
        gateway = PageGateway(
            slow,
            framework=None,
            key_needed=False,
            attempts=Attempts(),
            has_room=lambda size: size <= 1000,
            largest_upload=900,
        )
        transport = httpx.ASGITransport(app=gateway, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:

            async def upload(content: Any) -> int:
                return (await client.post("/gradio_api/upload", content=content)).status_code

            first = asyncio.ensure_future(upload(bytes(600)))
            await arrived.acquire()
            refused = [await upload(bytes(500)), await upload(pieces(1, 10))]
            waiting.set()
            return [*refused, await first, await upload(bytes(500)), await upload(pieces(1, 10))]

    assert asyncio.run(go()) == [503, 503, 200, 200, 200]
