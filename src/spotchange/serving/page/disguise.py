"""The page's framework names files by their full paths; nobody outside shall read where they lie.

On the way out the temporary folder's path becomes a name of the same length, on the way in the name becomes the path
again. The same length, because answers announce theirs before they are sent.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from spotchange.serving.guard import App, Message, Receive, Scope, Send

PREFIX = "/page-files-"


class Disguise:
    """ASGI application around the page."""

    def __init__(self, app: App, folder: Path) -> None:
        self._app = app
        real = str(folder)
        if len(real) < len(PREFIX) + 4:
            raise ValueError(f"the path of the page's files is too short to be replaced: {real}")
        shown = PREFIX + secrets.token_hex(len(real))[: len(real) - len(PREFIX)]
        self._real, self._shown = real.encode(), shown.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with paths, and its answer back with names."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def receive_paths() -> Message:
            return self._replaced(await receive(), self._shown, self._real)

        async def send_names(message: Message) -> None:
            await send(self._replaced(message, self._real, self._shown))

        inside = dict(scope) | {
            "path": scope["path"].replace(self._shown.decode(), self._real.decode()),
            "raw_path": scope.get("raw_path", b"").replace(self._shown, self._real),
            "query_string": scope.get("query_string", b"").replace(self._shown, self._real),
        }
        await self._app(inside, receive_paths, send_names)

    @staticmethod
    def _replaced(message: Message, old: bytes, new: bytes) -> Message:
        body = message.get("body")
        return message if not body or old not in body else {**message, "body": bytes(body).replace(old, new)}
