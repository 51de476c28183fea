"""Reads the two forms of a body, multipart and JSON, into the bytes of pairs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile

from spotchange.serving.api.problems import Problem
from spotchange.serving.api.schemas import BatchIn, PairIn
from spotchange.serving.api.uploads import check_image, decode_base64
from spotchange.serving.settings import ServerSettings

JSON, FORM = "application/json", "multipart/form-data"
LONGEST_ID = 200
# Of a JSON body. Base64 has none of these marks: a body of more is no request, and takes twenty times its size parsed.
MOST_PARTS = 20_000
_PARTS = (b",", b"[", b"{")
_NEUTRAL_TYPES = ("", "application/octet-stream")
_Model = TypeVar("_Model", bound=BaseModel)
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class EncodedPair:
    """Two images as they were sent; `problem` where one of them was refused."""

    id: str
    before: bytes = b""
    after: bytes = b""
    pixels: int = 0
    problem: Problem | None = None


async def read_pair_body(request: Request, settings: ServerSettings) -> EncodedPair:
    """The pair of a request; a refused image raises its problem."""
    if _content_type(request) == JSON:
        sent = _validated(PairIn, await _in_time(request.body(), settings))
        pair = _from_base64("0", sent, settings)
    else:
        form = await _in_time(request.form(max_files=2, max_fields=1), settings)
        try:
            _expect_fields(form, ("before", "after"))
            (before,), (after,) = [await _files(form, side) for side in ("before", "after")]
        except ValueError:
            raise Problem(422, "invalid-request", "the form needs one file `before` and one file `after`") from None
        finally:
            await form.close()
        pair = _checked("0", before, after, settings)
    if pair.problem is not None:
        raise pair.problem
    return pair


async def read_batch_body(request: Request, settings: ServerSettings) -> list[EncodedPair]:
    """The pairs of a request; a refused image makes only its own pair fail."""
    if _content_type(request) == JSON:
        sent = _validated(BatchIn, await _in_time(request.body(), settings))
        _check_count(len(sent.pairs), settings)
        pairs = [
            _from_base64(pair.id if pair.id is not None else str(number), pair, settings)
            for number, pair in enumerate(sent.pairs)
        ]
    else:
        # One more than allowed is let in, so that the answer can name the limit.
        most = settings.max_pairs + 1
        form = await _in_time(request.form(max_files=2 * most, max_fields=most), settings)
        try:
            _expect_fields(form, ("before", "after", "id"))
            pairs = await _pairs_of_form(form, settings)
        finally:
            await form.close()
    if len({pair.id for pair in pairs}) < len(pairs):
        raise Problem(422, "invalid-request", "two pairs have the same id")
    return pairs


async def _pairs_of_form(form: FormData, settings: ServerSettings) -> list[EncodedPair]:
    before, after = [await _files(form, side) for side in ("before", "after")]
    names = [name for name in form.getlist("id") if isinstance(name, str)]
    if not before or len(before) != len(after) or len(names) not in (0, len(before)):
        raise Problem(
            422, "invalid-request", "the form needs as many files `before` as `after`, and an `id` for each or none"
        )
    if any(len(name) > LONGEST_ID for name in names):
        raise Problem(422, "invalid-request", f"an id may have {LONGEST_ID} characters")
    _check_count(len(before), settings)
    names = names or [str(number) for number in range(len(before))]
    return [_checked(*each, settings) for each in zip(names, before, after, strict=True)]


async def _files(form: FormData, side: str) -> list[bytes]:
    """The contents of the files of one field."""
    contents = []
    for part in form.getlist(side):
        if not isinstance(part, UploadFile):
            raise Problem(422, "invalid-request", f"{side}: send a file")
        kind = (part.content_type or "").partition(";")[0].strip().lower()
        if kind not in _NEUTRAL_TYPES and not kind.startswith("image/"):
            raise Problem(415, "not-a-picture", f"{side}: sent as {kind[:80]!r}, which is no picture")
        contents.append(await part.read())
    return contents


def _expect_fields(form: FormData, known: Sequence[str]) -> None:
    for name in form:
        if name not in known:
            raise Problem(422, "invalid-request", f"unknown field {name[:80]!r}; known: {', '.join(known)}")


def _content_type(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, FORM):
        raise Problem(415, "unsupported-body", f"send {FORM} or {JSON}")
    return kind


def _validated(model: type[_Model], body: bytes) -> _Model:
    if sum(body.count(mark) for mark in _PARTS) > MOST_PARTS:
        raise Problem(422, "invalid-request", "the body is not a pair of pictures, or a list of them")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, "invalid-json", "the body is not JSON") from None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Problem(422, "invalid-request", f"{where}: {first['msg']}" if where else first["msg"]) from None


def _check_count(pairs: int, settings: ServerSettings) -> None:
    if pairs > settings.max_pairs:
        raise Problem(413, "too-many-pairs", f"a request may have {settings.max_pairs} pairs")


def _from_base64(name: str, sent: PairIn, settings: ServerSettings) -> EncodedPair:
    try:
        before, after = (decode_base64(getattr(sent, side), side, settings) for side in ("before", "after"))
    except Problem as problem:
        return EncodedPair(id=name, problem=problem)
    return _checked(name, before, after, settings)


def _checked(name: str, before: bytes, after: bytes, settings: ServerSettings) -> EncodedPair:
    try:
        pixels = check_image(before, "before", settings) + check_image(after, "after", settings)
    except Problem as problem:
        return EncodedPair(id=name, problem=problem)
    return EncodedPair(id=name, before=before, after=after, pixels=pixels)


async def _in_time(reading: Awaitable[_Value], settings: ServerSettings) -> _Value:
    """A client that sends slowly must not hold a place for ever."""
    try:
        async with asyncio.timeout(settings.body_seconds):
            return await reading
    except TimeoutError:
        detail = f"the body did not arrive within {settings.body_seconds:g} seconds"
        raise Problem(408, "too-slow", detail, headers={"Connection": "close"}) from None
