"""Every error as problem details (RFC 9457), without a path, a traceback or a file name of the server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from spotchange.errors import ReplyError

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds; a full line of pairs is worked off about as fast


class Problem(Exception):
    """An answer that is an error; `name` makes the problem's type."""

    def __init__(self, status: int, name: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.name, self.detail = status, name, detail
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        """The answer."""
        return problem_response(self.status, self.name, self.detail, headers=self.headers)


def problem_response(
    status: int, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem; `about:blank` where the status says it all."""
    content = {
        "type": f"urn:spotchange:problem:{name}" if name else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **more,
    }
    return JSONResponse(content, status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def no_place() -> Problem:
    """The server is full, or closing."""
    return Problem(503, "no-place", "every place is taken; try again in a moment", headers={"Retry-After": RETRY_AFTER})


def no_reply(error: ReplyError) -> Problem:
    """The model that was asked gave no usable answer; which model, and where it runs, is for the log."""
    log.warning("a pair has no answer: %s", error.message)
    return Problem(502, "no-reply", "the model gave no usable answer to this pair")


def install(app: FastAPI) -> None:
    """Turn every exception of an app into a problem."""

    @app.exception_handler(Problem)
    async def _problem(_: Request, error: Problem) -> JSONResponse:
        return error.response()

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        return problem_response(error.status_code, "", str(error.detail), headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        found = [{"where": ".".join(map(str, each["loc"])), "detail": each["msg"]} for each in error.errors()]
        detail = "; ".join(f"{each['where']}: {each['detail']}" for each in found)
        return problem_response(422, "invalid-request", detail, errors=found)

    @app.exception_handler(ReplyError)
    async def _no_reply(_: Request, error: ReplyError) -> JSONResponse:
        return no_reply(error).response()

    @app.exception_handler(Exception)
    async def _unexpected(_: Request, __: Exception) -> JSONResponse:
        # The web server logs the exception itself.
        return problem_response(500, "", "something went wrong here; the server's log says what")
