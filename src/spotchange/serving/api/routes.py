"""The HTTP API: captions for one pair or many, models, health, metrics."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from spotchange.answering import Answerer, CaptionOptions
from spotchange.results import Box
from spotchange.serving.api.answers import Answering
from spotchange.serving.api.problems import MEDIA_TYPE, Problem, no_place
from spotchange.serving.api.schemas import CaptionOut, ModelOut, ModelsOut, ProblemOut, StateOut, request_body
from spotchange.serving.engine.meter import Meter
from spotchange.serving.engine.queue import Batcher

LINES = "application/x-ndjson"
MOST_IGNORED = 32
_BOX = r"^\d{1,6},\d{1,6},[1-9]\d{0,5},[1-9]\d{0,5}$"

Heatmap = Annotated[bool, Query(description="Add a PNG (base64) of both images with the change marked.")]


def caption_options(
    threshold: Annotated[float | None, Query(ge=0, le=1, description="Change score that counts as a change.")] = None,
    ignore: Annotated[
        list[Annotated[str, Query(pattern=_BOX)]] | None,
        Query(description="Leave out the rectangle x,y,width,height of the before image.", max_length=MOST_IGNORED),
    ] = None,
) -> CaptionOptions:
    """The options of a request."""
    boxes: list[Box] = []
    for text in ignore or ():
        x, y, width, height = (int(part) for part in text.split(","))
        boxes.append((x, y, width, height))
    return CaptionOptions(threshold=threshold, ignore=tuple(boxes))


def known_parameters(*names: str) -> Any:
    """A dependency that refuses every other query parameter: a misspelt one must not be ignored in silence."""

    async def check(request: Request) -> None:
        unknown = sorted(set(request.query_params) - set(names))
        if unknown:
            known = f"known: {', '.join(names)}" if names else "there are none here"
            raise Problem(422, "invalid-request", f"unknown parameter {unknown[0][:80]!r}; {known}")

    return Depends(check)


Options = Annotated[CaptionOptions, Depends(caption_options)]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors a route may give, for the description."""
    schema = {"$ref": f"#/components/schemas/{ProblemOut.__name__}"}
    return {
        status: {"description": "A problem (RFC 9457).", "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def caption_router(answering: Answering) -> APIRouter:
    """The routes that look at images."""
    checked = [known_parameters("threshold", "ignore", "heatmap")]
    responses = problems(400, 401, 403, 408, 413, 415, 421, 422, 429, 500, 502, 503)
    router = APIRouter(prefix="/v1", responses=responses, dependencies=checked)

    @router.post(
        "/caption",
        response_model=CaptionOut,
        response_model_exclude_unset=True,
        openapi_extra=request_body(many=False),
    )
    async def caption(request: Request, options: Options, heatmap: Heatmap = False) -> Any:
        """Say what changed between two images."""
        return await answering.one(request, options, heatmap=heatmap)

    @router.post(
        "/caption/batch",
        response_class=Response,
        responses={
            200: {
                "description": "One JSON line a pair, in order: its `id` and the result, or its `id` and `error`.",
                "content": {LINES: {"schema": {"type": "string"}}},
            }
        },
        openapi_extra=request_body(many=True),
    )
    async def caption_batch(request: Request, options: Options, heatmap: Heatmap = False) -> Response:
        """Say what changed in many pairs; a bad image fails its own pair only."""
        lines = await answering.many(request, options, heatmap=heatmap)
        return Response("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), media_type=LINES)

    return router


def models_router(answerer: Answerer) -> APIRouter:
    """What answers here."""
    router = APIRouter(prefix="/v1", responses=problems(401, 421, 422, 429), dependencies=[known_parameters()])

    @router.get("/models")
    async def models() -> ModelsOut:
        """The models that answer here."""
        card = answerer.card
        model = ModelOut(
            id=card.name,
            architecture=card.architecture,
            change_types=list(card.change_types),
            image_size=card.image_size,
            device=card.device,
        )
        return ModelsOut(models=[model])

    return router


def health_router(batcher: Batcher, meter: Meter) -> APIRouter:
    """Routes for probes and monitoring."""
    router = APIRouter(responses=problems(421, 422), dependencies=[known_parameters()])

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
        responses=problems(401, 429) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(meter.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
