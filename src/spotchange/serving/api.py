"""The HTTP API: captions for one pair or many, models, health, metrics."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from spotchange.captioner import Answer, Captioner, CaptionOptions
from spotchange.serving.batching import Batcher, NoPlaceError
from spotchange.serving.bodies import EncodedPair, read_batch_body, read_pair_body
from spotchange.serving.meter import Meter
from spotchange.serving.problems import MEDIA_TYPE, Problem, no_place
from spotchange.serving.schemas import CaptionOut, ModelOut, ModelsOut, ProblemOut, StateOut, request_body
from spotchange.serving.settings import ServerSettings
from spotchange.serving.uploads import Decoder
from spotchange.types import Box

LINES = "application/x-ndjson"
CLIENT_GONE = 499  # nobody reads it; the meter does
MOST_IGNORED = 32
log = logging.getLogger(__name__)
_BOX = r"^\d{1,6},\d{1,6},[1-9]\d{0,5},[1-9]\d{0,5}$"

Heatmap = Annotated[bool, Query(description="Add a PNG (base64) of both pictures with the change marked.")]


def caption_options(
    threshold: Annotated[float | None, Query(ge=0, le=1, description="Change score that counts as a change.")] = None,
    ignore: Annotated[
        list[Annotated[str, Query(pattern=_BOX)]] | None,
        Query(description="Leave out the rectangle x,y,width,height of the before picture.", max_length=MOST_IGNORED),
    ] = None,
) -> CaptionOptions:
    """The options of a request."""
    boxes: list[Box] = []
    for text in ignore or ():
        x, y, width, height = (int(part) for part in text.split(","))
        boxes.append((x, y, width, height))
    return CaptionOptions(threshold=threshold, ignore=tuple(boxes))


Options = Annotated[CaptionOptions, Depends(caption_options)]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors a route may give, for the description."""
    schema = {"$ref": f"#/components/schemas/{ProblemOut.__name__}"}
    return {
        status: {"description": "A problem (RFC 9457).", "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def caption_router(
    captioner: Captioner, batcher: Batcher, decoder: Decoder, meter: Meter, settings: ServerSettings
) -> APIRouter:
    """Routes under /v1."""
    router = APIRouter(prefix="/v1", responses=problems(401, 421))
    refusals = problems(400, 408, 413, 415, 422, 500, 503)

    @router.post(
        "/caption",
        response_model=CaptionOut,
        response_model_exclude_unset=True,
        responses=refusals,
        openapi_extra=request_body(many=False),
    )
    async def caption(request: Request, options: Options, heatmap: Heatmap = False) -> Any:
        """Say what changed between two pictures."""
        try:
            with batcher.place():
                pair = await read_pair_body(request, settings)
                (told,) = await answer_while_connected(request, [answer(pair, options, heatmap)])
        except NoPlaceError:
            raise no_place() from None
        except ClientDisconnect:
            meter.client_gone()
            return Response(status_code=CLIENT_GONE)
        if isinstance(told, Exception):
            raise told
        return told

    @router.post(
        "/caption/batch",
        response_class=Response,
        responses=refusals
        | {
            200: {
                "description": "One JSON line a pair, in order: its `id` and the result, or its `id` and `error`.",
                "content": {LINES: {"schema": {"type": "string"}}},
            }
        },
        openapi_extra=request_body(many=True),
    )
    async def caption_batch(request: Request, options: Options, heatmap: Heatmap = False) -> Response:
        """Say what changed in many pairs; a bad picture fails its own pair only."""
        try:
            with batcher.place():
                pairs = await read_batch_body(request, settings)
                with batcher.place(len(pairs) - 1):
                    told = await answer_while_connected(request, [answer(pair, options, heatmap) for pair in pairs])
        except NoPlaceError:
            raise no_place() from None
        except ClientDisconnect:
            meter.client_gone()
            return Response(status_code=CLIENT_GONE)
        lines = [_line(pair.id, each) for pair, each in zip(pairs, told, strict=True)]
        return Response("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), media_type=LINES)

    async def answer(pair: EncodedPair, options: CaptionOptions, heatmap: bool) -> dict[str, Any]:
        if pair.problem is not None:
            raise pair.problem
        async with decoder.pixels(pair.pixels):
            pictures = await decoder.decode(pair.before, pair.after)
            found = await asyncio.wrap_future(batcher.submit(pictures, options))
            return await asyncio.to_thread(_told, found) if heatmap else found.result.to_dict()

    @router.get("/models")
    async def models() -> ModelsOut:
        """The models that answer here."""
        loaded = captioner.loaded
        return ModelsOut(
            models=[
                ModelOut(
                    id=captioner.name,
                    architecture=loaded.settings.architecture,
                    change_types=list(loaded.change_types),
                    image_size=loaded.settings.vision.image_size,
                    device=str(next(captioner.model.parameters()).device),
                )
            ]
        )

    return router


def health_router(batcher: Batcher, meter: Meter) -> APIRouter:
    """Routes for probes and monitoring."""
    router = APIRouter(responses=problems(421))

    @router.get("/healthz")
    async def healthz() -> StateOut:
        """The process lives."""
        return StateOut(status="ok")

    @router.get("/readyz", responses=problems(503))
    async def readyz() -> StateOut:
        """Pairs that come now will be answered."""
        if not batcher.ready:
            raise no_place()
        return StateOut(status="ready")

    @router.get(
        "/metrics",
        response_class=Response,
        responses=problems(401) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(meter.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


async def answer_while_connected(
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
        work.cancel()  # reaches the pairs that wait for the model and takes them out of the line
    told = work.result()
    for each in told:
        if isinstance(each, BaseException) and not isinstance(each, Exception):
            raise each
    return told


async def _disconnected(request: Request) -> None:
    """Returns when the client is gone; the body has been read by now."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _line(name: str, told: dict[str, Any] | Exception) -> dict[str, Any]:
    if isinstance(told, Problem):
        return {"id": name, "error": told.detail}
    if isinstance(told, Exception):
        log.error("a pair of a batch failed", exc_info=told)
        return {"id": name, "error": "something went wrong here; the server's log says what"}
    return {"id": name, **told}


def _told(answer: Answer) -> dict[str, Any]:
    """The result with its picture."""
    packed = io.BytesIO()
    answer.picture().save(packed, "PNG")
    return answer.result.to_dict() | {"heatmap": base64.b64encode(packed.getvalue()).decode("ascii")}
