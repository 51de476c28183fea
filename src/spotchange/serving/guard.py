"""The door in front of everything: host names, the key, the size of bodies, security headers, and the meter."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders

from spotchange.serving.api.problems import MEDIA_TYPE, Problem, problem_response
from spotchange.serving.engine.meter import Meter
from spotchange.serving.settings import ServerSettings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/healthz", "/readyz")  # for probes, which hold no key
API_PATHS = (*OPEN_PATHS, "/metrics", "/openapi.json")
DRAINED_BYTES = 64 * 2**20  # of a refused body, so that the client reads the answer instead of a broken connection
DRAINED_SECONDS = 10.0

_ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"
# The page's framework starts from inline scripts and styles; everything else must come from here.
_PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' blob: data:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)


def is_api(path: str) -> bool:
    """Whether a path belongs to the API rather than to the page."""
    return path in API_PATHS or path == "/v1" or path.startswith("/v1/")


class Guard:
    """ASGI application around API and page."""

    def __init__(self, *, api: App, page: App | None, settings: ServerSettings, meter: Meter) -> None:
        self._api, self._page = api, page
        self._settings, self._meter = settings, meter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it with a problem."""
        if scope["type"] == "lifespan":
            await self._api(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        to_api = is_api(scope["path"])
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _ALWAYS.items():
                    headers[name] = value
                headers["content-security-policy"] = _API_POLICY if to_api else _PAGE_POLICY
                if to_api:
                    headers["cache-control"] = "no-store"
            await send(message)

        try:
            await self._dispatch(scope, receive, send_with_headers)
        finally:
            if to_api:
                route = getattr(scope.get("route"), "path", "none")
                self._meter.request_done(route, status, time.perf_counter() - started)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._refusal(scope)
        if problem is not None:
            await drain(receive)
            await problem.response()(scope, receive, send)
            return
        receive = _limited(receive, self._body_limit(scope["path"]))
        if is_api(scope["path"]):
            await self._api(scope, receive, send)
        elif self._page is not None:
            await self._page(scope, receive, _as_problem(scope, send))
        else:
            await problem_response(404, "", "there is no page here, only the API under /v1")(scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        names = self._settings.host_names
        if names is not None and _host_name(headers.get("host", "")) not in names:
            return Problem(421, "unknown-host", "this server does not answer to that host name")
        # The page asks for the key itself.
        if is_api(scope["path"]) and scope["path"] not in OPEN_PATHS and not self._has_key(headers):
            return Problem(401, "key-needed", "a valid API key is needed", headers={"WWW-Authenticate": "Bearer"})
        limit = self._body_limit(scope["path"])
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > limit:
            return Problem(413, "request-too-large", f"a request may have {limit:,} bytes")
        return None

    def _has_key(self, headers: Headers) -> bool:
        wanted = self._settings.api_key
        if wanted is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # Compared in constant time, so that answers do not tell how much of a guess was right.
        return hmac.compare_digest(given.encode(), wanted.encode())

    def _body_limit(self, path: str) -> int:
        if path == "/v1/caption/batch" or not is_api(path):
            return self._settings.max_request_bytes
        return self._settings.max_picture_bytes * 2 * 4 // 3 + 2**16  # two pictures in base64, and their envelope


def _limited(receive: Receive, limit: int) -> Receive:
    """Count a body that does not say how long it is."""
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            if message.get("more_body", False):
                await drain(receive)
            raise Problem(413, "request-too-large", f"a request may have {limit:,} bytes")
        return message

    return receive_counted


async def drain(receive: Receive) -> None:
    """Take in what the client is still sending and throw it away, within bounds."""
    seen = 0
    try:
        async with asyncio.timeout(DRAINED_SECONDS):
            while seen <= DRAINED_BYTES:
                message = await receive()
                seen += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _as_problem(scope: Scope, send: Send) -> Send:
    """Turn an error for a path the page does not have into a problem; its own calls keep the form they expect."""
    replaced = False

    async def send_problem(message: Message) -> None:
        nonlocal replaced
        if message["type"] == "http.response.start" and message["status"] in (404, 405):
            headers = Headers(raw=message.get("headers", []))
            framework = scope["path"].startswith("/gradio_api/")
            if not framework and headers.get("content-type") != MEDIA_TYPE:
                replaced = True
                answer = problem_response(message["status"], "", "there is nothing at this address")
                await send({"type": "http.response.start", "status": message["status"], "headers": answer.raw_headers})
                await send({"type": "http.response.body", "body": answer.body})
                return
        if not replaced:
            await send(message)

    return send_problem


def _host_name(host: str) -> str:
    """The name of a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
