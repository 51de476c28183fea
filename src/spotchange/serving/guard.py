"""The gateway in front of everything: host names, the key, the size of bodies, security headers, and the meter."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from spotchange.serving.api.problems import MEDIA_TYPE, Problem, no_place, problem_response
from spotchange.serving.attempts import Attempts, address_of
from spotchange.serving.engine.meter import Meter
from spotchange.serving.settings import ServerSettings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/healthz", "/readyz")  # for probes, which hold no key
UPLOAD = "/gradio_api/upload"  # the one route of the page that takes files
API_PATHS = (*OPEN_PATHS, "/metrics", "/openapi.json", "/docs")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
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

    def __init__(
        self, *, api: App, page: App | None, settings: ServerSettings, meter: Meter, attempts: Attempts | None = None
    ) -> None:
        self._api, self._page = api, page
        self._settings, self._meter = settings, meter
        self._attempts = attempts or Attempts()
        self._held = _Held(settings.max_held_bytes)

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
        to_api = is_api(scope["path"])
        seconds = None if to_api else self._settings.body_seconds  # the API has its own clock
        held = self._held if to_api else None  # uploads of the page go to the disk, which has a bound of its own
        body = _Body(receive, self._body_limit(scope["path"]), seconds, self._settings.slowest_bytes, held=held)
        if to_api:
            try:
                await self._guarded(self._api, scope, body, send)
            finally:
                body.release()
        elif self._page is not None:
            await self._guarded(self._page, scope, body, _as_problem(scope, send))
        else:
            await problem_response(404, "", "there is no page here, only the API under /v1")(scope, receive, send)

    async def _guarded(self, app: App, scope: Scope, body: _Body, send: Send) -> None:
        """Let an application answer, unless the body turns out to be one that is refused."""
        started = False

        async def send_unless_refused(message: Message) -> None:
            nonlocal started
            if body.problem is None or started:
                started = True
                await send(message)

        try:
            await app(scope, body.receive, send_unless_refused)
        except Exception:
            if body.problem is None:
                raise
        if body.problem is not None and not started:
            await body.problem.response()(scope, body.receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        names = self._settings.host_names
        if names is not None and _host_name(headers.get("host", "")) not in names:
            return Problem(421, "unknown-host", "this server does not answer to that host name")
        if scope["method"] not in SAFE_METHODS and _cross_site(headers):
            return Problem(403, "cross-site", "pages of other sites may not send anything here")
        # The page asks for the key itself.
        if is_api(scope["path"]) and scope["path"] not in OPEN_PATHS:
            problem = self._key_problem(headers, address_of(scope))
            if problem is not None:
                return problem
        limit = self._body_limit(scope["path"])
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > limit:
            return Problem(413, "request-too-large", f"a request may have {limit:,} bytes")
        return None

    def _key_problem(self, headers: Headers, address: str) -> Problem | None:
        if self._settings.api_key is None:
            return None
        refusal = self._attempts.refusal(address)
        if refusal is not None:
            return refusal
        if self._has_key(headers):
            return None
        if "authorization" in headers or "x-api-key" in headers:
            self._attempts.failed(address)
        return Problem(401, "key-needed", "a valid API key is needed", headers={"WWW-Authenticate": "Bearer"})

    def _has_key(self, headers: Headers) -> bool:
        wanted = self._settings.api_key
        if wanted is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # Compared in constant time, so that answers do not tell how much of a guess was right.
        return hmac.compare_digest(given.encode(), wanted.encode())

    def _body_limit(self, path: str) -> int:
        if path in ("/v1/caption/batch", UPLOAD):
            return self._settings.max_request_bytes
        if not is_api(path):
            return self._settings.max_call_bytes
        return self._settings.max_image_bytes * 2 * 4 // 3 + 2**16  # two images in base64, and their envelope


@dataclass
class _Held:
    """Bytes of the bodies of all requests that are being answered."""

    limit: int
    taken: int = 0


class _Body:
    """A request's body as it comes: counted, and on the page with a clock; what is too much or too slow ends it."""

    def __init__(
        self, receive: Receive, limit: int, seconds: float | None, slowest_bytes: int, *, held: _Held | None = None
    ) -> None:
        self._receive, self._limit, self._held = receive, limit, held
        self._seconds, self._slowest_bytes = seconds, slowest_bytes
        self._began, self._seen, self._more = time.monotonic(), 0, True
        self.problem: Problem | None = None

    async def receive(self) -> Message:
        """The next piece; as if the client were gone once the body is refused."""
        if self.problem is not None:
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout(self._left()):
                message = await self._receive()
        except TimeoutError:
            self.problem = Problem(408, "too-slow", "the body came too slowly", headers={"Connection": "close"})
            return {"type": "http.disconnect"}
        size = len(message.get("body", b""))
        self._seen += size
        self._more = message.get("more_body", False)
        if self._held is not None:
            self._held.taken += size
        problem = self._too_much()
        if problem is not None:
            if self._more:
                await drain(self._receive)
            self.problem = problem
            return {"type": "http.disconnect"}
        return message

    def release(self) -> None:
        """The request is answered: its bytes are gone."""
        if self._held is not None:
            self._held.taken -= self._seen

    def _too_much(self) -> Problem | None:
        if self._seen > self._limit:
            return Problem(413, "request-too-large", f"a request may have {self._limit:,} bytes")
        if self._held is not None and self._held.taken > self._held.limit:
            return no_place()
        return None

    def _left(self) -> float | None:
        """Seconds to wait for the next piece; after the body nothing more is expected."""
        if self._seconds is None or not self._more:
            return None
        allowed = self._seconds + self._seen / self._slowest_bytes
        return max(0.0, self._began + allowed - time.monotonic())


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


def _cross_site(headers: Headers) -> bool:
    """Whether a browser sends this for a page of another site; other clients say nothing of the kind."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").strip().lower()


def _host_name(host: str) -> str:
    """The name of a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
