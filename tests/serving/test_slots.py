"""The bounded line: a full one says so, a client that goes away frees its place, a slow one is not waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from spotchange.answering import Captioner
from spotchange.serving.app import Service
from spotchange.serving.settings import ServerSettings

Draw = Callable[..., bytes]
Form = Callable[[bytes, bytes], Any]


class Held:
    """The real answerer behind a gate."""

    workers = 1

    def __init__(self, captioner: Captioner) -> None:
        self._answerer = captioner.answerer
        self.card = captioner.answerer.card
        self.gate = threading.Event()

    def answer(self, pairs: Any, options: Any) -> Any:
        assert self.gate.wait(60)
        return self._answerer.answer(pairs, options)


@pytest.fixture
def held(captioner: Captioner, request: pytest.FixtureRequest) -> Iterator[tuple[Service, Held]]:
    """A service whose model waits; a body has a minute, or as long as a test says."""
    seconds = getattr(request, "param", 60.0)
    settings = ServerSettings(page=False, places=3, max_pairs=3, batch_size=1, body_seconds=seconds)
    service = Service(captioner.answerer, settings)
    gate = Held(captioner)
    service.batcher._answerer = gate
    yield service, gate
    gate.gate.set()
    service.close()


def connect(service: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://127.0.0.1")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_full_line_answers_503_at_once(held: tuple[Service, Held], draw: Draw, pair_form: Form) -> None:
    service, gate = held

    async def scenario() -> None:
        async with connect(service) as client:
            files = pair_form(draw(1), draw(2))
            waiting = [asyncio.create_task(client.post("/v1/caption", files=files)) for _ in range(3)]
            await until(lambda: service.batcher.places_taken == 3)
            refused = await client.post("/v1/caption", files=files)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["content-type"] == "application/problem+json"
            assert (await client.get("/healthz")).status_code == 200
            gate.gate.set()
            assert [(await task).status_code for task in waiting] == [200] * 3
            assert service.batcher.places_taken == 0
            assert (await client.post("/v1/caption", files=files)).status_code == 200

    asyncio.run(scenario())


async def call(service: Service, messages: list[dict[str, Any]], headers: list[tuple[bytes, bytes]]) -> list[Any]:
    """One request by hand, so that the client can go away in the middle."""
    sent: list[Any] = []
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    for message in messages:
        queue.put_nowait(message)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/caption",
        "raw_path": b"/v1/caption",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await service.app(scope, queue.get, send)
    return sent


def test_a_client_that_goes_away_frees_its_place(held: tuple[Service, Held], draw: Draw, pair_form: Form) -> None:
    service, gate = held
    request = httpx.Request("POST", "http://127.0.0.1/v1/caption", files=pair_form(draw(1), draw(2)))
    headers = [(b"content-type", request.headers["content-type"].encode())]
    body = {"type": "http.request", "body": request.read(), "more_body": False}

    async def scenario() -> None:
        busy = [asyncio.create_task(call(service, [body], headers)) for _ in range(2)]
        await until(lambda: service.batcher.places_taken == 2)
        await call(service, [body, {"type": "http.disconnect"}], headers)
        assert service.batcher.places_taken == 2
        await until(lambda: len(service.batcher._waiting) <= 1)  # of the two that stay, one is being computed
        gate.gate.set()
        for task in busy:
            assert (await task)[0]["status"] == 200

    asyncio.run(scenario())
    assert "spotchange_clients_gone_total 1.0" in service.meter.text().decode()


def test_going_away_while_sending_frees_the_place_too(held: tuple[Service, Held]) -> None:
    service, _ = held
    headers = [(b"content-type", b"application/json")]
    half = {"type": "http.request", "body": b'{"before": "', "more_body": True}
    asyncio.run(call(service, [half, {"type": "http.disconnect"}], headers))
    assert service.batcher.places_taken == 0


@pytest.mark.parametrize("held", [0.5], indirect=True)
def test_a_body_that_never_ends_is_not_waited_for(held: tuple[Service, Held]) -> None:
    service, _ = held
    headers = [(b"content-type", b"application/json")]
    half = {"type": "http.request", "body": b'{"before": "', "more_body": True}
    sent = asyncio.run(call(service, [half], headers))
    assert sent[0]["status"] == 408
    assert service.batcher.places_taken == 0


def test_a_closing_server_is_not_ready(held: tuple[Service, Held], draw: Draw, pair_form: Form) -> None:
    service, gate = held
    gate.gate.set()
    service.batcher.close()

    async def scenario() -> None:
        async with connect(service) as client:
            assert (await client.get("/readyz")).status_code == 503
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.post("/v1/caption", files=pair_form(draw(1), draw(2)))).status_code == 503

    asyncio.run(scenario())


def test_large_images_wait_for_memory(captioner: Captioner, draw: Draw, pair_form: Form) -> None:
    pixels = 2 * 72 * 48
    service = Service(captioner.answerer, ServerSettings(page=False, max_pixels=72 * 48, max_decoded_pixels=pixels))
    gate = Held(captioner)
    service.batcher._answerer = gate

    async def scenario() -> None:
        async with connect(service) as client:
            tasks = [asyncio.create_task(client.post("/v1/caption", files=pair_form(draw(n), draw(9)))) for n in (1, 2)]
            await until(lambda: service.batcher.places_taken == 2)
            await until(lambda: service.decoder._pixels_left == 0)  # one pair has it all
            await asyncio.sleep(0.1)
            assert service.decoder._pixels_left == 0  # the second pair is not decoded yet
            gate.gate.set()
            assert [(await task).status_code for task in tasks] == [200, 200]
            assert service.decoder._pixels_left == pixels

    asyncio.run(scenario())
    service.close()
