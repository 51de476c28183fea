"""Names for the page's files: nobody outside reads where they lie, and each visitor can name only their own.

On the way out the temporary folder's path becomes a name of the same length, on the way in the name becomes the path
again. The same length, because answers announce theirs before they are sent. The name is a signature over the
visitor and the file's folder, so it is worth nothing to another visitor, and none can be made up. Only calls name
files: what is uploaded, and the files themselves, pass as they are.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders

from spotchange.serving.guard import App, Message, Receive, Scope, Send

PREFIX = b"/page-files-"
COOKIE = "spotchange-visitor"
SHORTEST_SIGNATURE = 10  # characters of six bits
_VISITOR = re.compile(r"[\w-]{32}")
_NOWHERE = b"/nowhere"
_FOLDER = rb"(?:/([\w.-]+))?"  # the framework gives every file a folder of its own
_LONGEST_REST = 4096
_REST = rb'(?=([^"]{0,%d}))' % (_LONGEST_REST + 1)  # of the address, or of the string in a call
_FILE = "/gradio_api/file="


class Disguise:
    """ASGI application around the page."""

    def __init__(self, app: App, folder: Path) -> None:
        self._app = app
        self._real = str(folder).encode()
        self._characters = len(self._real) - len(PREFIX)
        if self._characters < SHORTEST_SIGNATURE:
            raise ValueError(f"the path of the page's files is too short to be replaced: {folder}")
        self._secret = secrets.token_bytes(32)
        self._paths = re.compile(re.escape(self._real) + _FOLDER)
        # A path spelled out, which no visitor was ever told, or a name.
        spelled = re.escape(self._real)
        self._names = re.compile(rb"%s|%s([\w-]{%d})%s%s" % (spelled, PREFIX, self._characters, _FOLDER, _REST))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with paths, and its answer back with names."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        known = _visitor(Headers(scope=scope))
        visitor = known or secrets.token_urlsafe(24)
        call = Headers(scope=scope).get("content-type", "").startswith("application/json")
        as_it_is = False

        async def receive_paths() -> Message:
            if not call:
                return await receive()
            # A name must not hide by lying across the border of two pieces.
            message = await _whole_body(receive)
            body = message.get("body")
            return {**message, "body": self._called(bytes(body), visitor)} if body else message

        async def send_names(message: Message) -> None:
            nonlocal as_it_is
            if message["type"] == "http.response.start":
                # A file is the visitor's own, and comes in pieces whose borders a path could lie across.
                as_it_is = scope["path"].startswith(_FILE) and message["status"] < 300
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                if known is None:
                    headers.append("set-cookie", f"{COOKIE}={visitor}; Path=/; HttpOnly; SameSite=Lax")
            body = None if as_it_is else message.get("body")
            await send({**message, "body": self.with_names(bytes(body), visitor)} if body else message)

        raw = {key: self.with_paths(scope.get(key) or b"", visitor) for key in ("raw_path", "query_string")}
        path = self.with_paths(scope["path"].encode(), visitor).decode()
        # An answer that was packed on the way here could not be read; scripts and styles name no files.
        packed = scope["path"].startswith("/assets/")
        headers = [each for each in scope["headers"] if packed or each[0].lower() != b"accept-encoding"]
        await self._app(dict(scope) | raw | {"path": path, "headers": headers}, receive_paths, send_names)

    def with_names(self, text: bytes, visitor: str) -> bytes:
        """Paths become this visitor's names."""
        return self._paths.sub(lambda found: self._name(visitor, found[1]) + _slashed(found[1]), text)

    def with_paths(self, text: bytes, visitor: str) -> bytes:
        """This visitor's names become paths; a path, another's name and a way out of a name's folder lead nowhere."""

        def path(found: re.Match[bytes]) -> bytes:
            given = found[1]
            if given is None or not hmac.compare_digest(PREFIX + given, self._name(visitor, found[2])):
                return _NOWHERE
            if len(found[3]) > _LONGEST_REST or b".." in found[3].split(b"/"):
                return _NOWHERE
            return self._real + _slashed(found[2])

        return self._names.sub(path, text)

    def _called(self, body: bytes, visitor: str) -> bytes:
        """A call with paths; written anew first, so that no letter of a name or a path is written as an escape."""
        try:
            text = json.dumps(json.loads(body), ensure_ascii=False)
        except (ValueError, RecursionError):  # for the framework to refuse
            return body
        return self.with_paths(text.encode("utf-8", errors="replace"), visitor)

    def _name(self, visitor: str, folder: bytes | None) -> bytes:
        signed = hmac.digest(self._secret, visitor.encode() + b"/" + (folder or b""), hashlib.sha512)
        return PREFIX + base64.urlsafe_b64encode(signed)[: self._characters].ljust(self._characters, b"_")


def _slashed(folder: bytes | None) -> bytes:
    return b"" if folder is None else b"/" + folder


def _visitor(headers: Headers) -> str | None:
    try:
        given = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return given.value if given is not None and _VISITOR.fullmatch(given.value) else None


async def _whole_body(receive: Receive) -> Message:
    """A body in one piece; the guard has limited how long it may be."""
    message = await receive()
    if message["type"] != "http.request":
        return message
    pieces = [message.get("body", b"")]
    while message.get("more_body", False):
        message = await receive()
        if message["type"] != "http.request":
            return message
        pieces.append(message.get("body", b""))
    return {"type": "http.request", "body": b"".join(pieces), "more_body": False}
