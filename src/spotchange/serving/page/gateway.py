"""The gateway to the page's framework: only the routes a browser needs, and none but the login without the key.

The framework answers many more (proxies, streams, component servers, histories), several of which ask for no login.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers

from spotchange.serving.api.problems import Problem
from spotchange.serving.attempts import Attempts, address_of
from spotchange.serving.guard import UPLOAD, App, Message, Receive, Scope, Send, drain

LOGIN = r"/login/?"
READ, WRITE = ("GET", "HEAD"), ("POST",)
# What is shown before anybody has logged in: the page without its content, and what that loads.
_OPEN = {
    r"/": READ,
    r"/(assets|static|svelte)/.+": READ,
    r"/(favicon\.ico|theme\.css|robots\.txt|manifest\.json)": READ,
    r"/gradio_api/theme\.css": READ,
    LOGIN: WRITE,
}
_NEEDED = {
    r"/config/?": READ,
    r"/logout": READ,
    r"/gradio_api/(info|login_check|user|app_id|startup-events)/?": READ,
    r"/gradio_api/(heartbeat/[\w-]+|queue/data|upload_progress)": READ,
    r"/gradio_api/file=.+": READ,
    r"/gradio_api/(queue/join|upload|cancel|reset/?)": WRITE,
}
_REFUSED_PARAMETERS = ("deep_link",)  # reads a file whose name it is


class PageGateway:
    """ASGI application around the framework."""

    def __init__(
        self,
        app: App,
        *,
        framework: Any,
        key_needed: bool,
        attempts: Attempts,
        has_room: Callable[[int], bool] = lambda upload_bytes: True,
        largest_upload: int = 0,
    ) -> None:
        self._app = app
        self._largest_upload, self._uploading = largest_upload, 0
        self._attempts, self._has_room = attempts, has_room
        self._logged_in = _login_of(framework) if key_needed else lambda headers: True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        problem = self._refusal(scope)
        if problem is not None:
            await drain(receive)
            await problem.response()(scope, receive, send)
        elif scope["path"] == UPLOAD:
            await self._upload(scope, receive, send)
        else:
            login = re.fullmatch(LOGIN, scope["path"])
            await self._app(scope, receive, self._watched(scope, send) if login else send)

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Room is promised before it is filled: many uploads may begin at the same moment."""
        size = self._size_of(scope)
        self._uploading += size
        try:
            await self._app(scope, receive, send)
        finally:
            self._uploading -= size

    def _watched(self, scope: Scope, send: Send) -> Send:
        """Counts logins that fail."""

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                self._attempts.failed(address_of(scope))
            await send(message)

        return send_and_count

    def _refusal(self, scope: Scope) -> Problem | None:
        path, method = scope["path"], scope["method"]
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if any(name in asked for name in _REFUSED_PARAMETERS):
            return Problem(404, "", "there is nothing at this address")
        if re.fullmatch(LOGIN, path):
            refusal = self._attempts.refusal(address_of(scope))
            if refusal is not None:
                return refusal
        if _listed(_OPEN, path, method):
            return None
        if not _listed(_NEEDED, path, method):
            return Problem(404, "", "there is nothing at this address")
        if not self._logged_in(Headers(scope=scope)):
            return Problem(401, "key-needed", "log in with the API key first")
        if path == UPLOAD and not self._has_room(self._uploading + self._size_of(scope)):
            return Problem(503, "no-room", "there is no room for more uploads; try again in some minutes")
        return None

    def _size_of(self, scope: Scope) -> int:
        """Bytes of an upload; one that does not say may have as many as are allowed."""
        length = Headers(scope=scope).get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() else self._largest_upload


def _listed(routes: Mapping[str, tuple[str, ...]], path: str, method: str) -> bool:
    return any(method in methods and re.fullmatch(pattern, path) for pattern, methods in routes.items())


def _login_of(framework: Any) -> Callable[[Headers], bool]:
    """Whether a request carries a token the framework's login gave out; some of its routes do not ask."""

    def logged_in(headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        names = (f"access-token-{framework.cookie_id}", f"access-token-unsecure-{framework.cookie_id}")
        return any(name in cookies and cookies[name].value in framework.tokens for name in names)

    return logged_in
