"""From a request to its answer: a slot in the queue, two images, the model, and a client that may go away."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from spotchange.answering import Answer, CaptionOptions
from spotchange.errors import ReplyError
from spotchange.images import encode_image
from spotchange.serving.api.bodies import EncodedPair, read_batch_body, read_pair_body
from spotchange.serving.api.problems import Problem, no_place, no_reply
from spotchange.serving.api.uploads import Decoder
from spotchange.serving.engine.meter import Meter
from spotchange.serving.engine.queue import Batcher, NoPlaceError
from spotchange.serving.settings import ServerSettings

CLIENT_GONE = 499  # nobody reads it; the meter does
log = logging.getLogger(__name__)


class Answering:
    """Answers requests with one pair or many."""

    def __init__(self, batcher: Batcher, decoder: Decoder, settings: ServerSettings) -> None:
        self._batcher, self._decoder, self._settings = batcher, decoder, settings

    async def one(self, request: Request, options: CaptionOptions, *, heatmap: bool) -> dict[str, Any]:
        """The result of the pair in a request."""
        with self._batcher.place():
            pair = await read_pair_body(request, self._settings)
            (answered,) = await while_connected(request, [self._answer(pair, options, heatmap)])
        if isinstance(answered, Exception):
            raise answered
        return answered

    async def many(self, request: Request, options: CaptionOptions, *, heatmap: bool) -> list[dict[str, Any]]:
        """A line a pair, in order."""
        with self._batcher.place():
            pairs = await read_batch_body(request, self._settings)
            with self._batcher.place(len(pairs) - 1):
                answered = await while_connected(request, [self._answer(pair, options, heatmap) for pair in pairs])
        return [_line(pair.id, each) for pair, each in zip(pairs, answered, strict=True)]

    async def _answer(self, pair: EncodedPair, options: CaptionOptions, heatmap: bool) -> dict[str, Any]:
        if pair.problem is not None:
            raise pair.problem
        async with self._decoder.pixels(pair.pixels):
            images = await self._decoder.decode(pair.before, pair.after, pixels=pair.pixels)
            found = await asyncio.wrap_future(self._batcher.submit(images, options))
            return await asyncio.to_thread(_as_json, found) if heatmap else found.result.to_dict()


def install(app: FastAPI, meter: Meter) -> None:
    """What an app says when there is no place, and when there is nobody to say it to."""

    @app.exception_handler(NoPlaceError)
    async def _full(_: Request, __: NoPlaceError) -> Response:
        return no_place().response()

    @app.exception_handler(ClientDisconnect)
    async def _gone(_: Request, __: ClientDisconnect) -> Response:
        meter.client_gone()
        return Response(status_code=CLIENT_GONE)


async def while_connected(
    request: Request, answers: Sequence[Coroutine[Any, Any, dict[str, Any]]]
) -> list[dict[str, Any] | Exception]:
    """Wait for answers, or raise ClientDisconnect as soon as nobody is there to read them."""
    work: asyncio.Future[list[Any]] = asyncio.gather(*answers, return_exceptions=True)
    gone: asyncio.Future[Any] = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
    finally:
        gone.cancel()
        work.cancel()  # reaches the pairs that wait for the model and takes them out of the queue
    answered = work.result()
    for each in answered:
        if isinstance(each, BaseException) and not isinstance(each, Exception):
            raise each
    return answered


async def _disconnected(request: Request) -> None:
    """Returns when the client is gone; the body has been read by now."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _line(name: str, answered: dict[str, Any] | Exception) -> dict[str, Any]:
    if isinstance(answered, ReplyError):
        answered = no_reply(answered)
    if isinstance(answered, Problem):
        return {"id": name, "error": answered.detail}
    if isinstance(answered, Exception):
        log.error("a pair of a batch failed", exc_info=answered)
        return {"id": name, "error": "something went wrong here; the server's log says what"}
    return {"id": name, **answered}


def _as_json(answer: Answer) -> dict[str, Any]:
    """The result with its image."""
    return answer.result.to_dict() | {"heatmap": base64.b64encode(encode_image(answer.figure())).decode("ascii")}
