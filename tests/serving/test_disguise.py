"""Paths of the server never leave it, and its own names find their way back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from spotchange.serving.page.disguise import COOKIE, Disguise


def test_paths_out_are_names_and_names_in_are_paths() -> None:
    folder = Path("/var/tmp/a-folder-of-the-server.xyz")
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, body=(await receive())["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f'["{folder}/hash/a.png"]'.encode()})

    async def ask(path: str, body: bytes, visitor: str = "v" * 32) -> bytes:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"cookie", f"{COOKIE}={visitor}".encode()), (b"accept-encoding", b"br")]
        scope = {"type": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        await disguise(scope, receive, send)
        answered: bytes = sent[1]["body"]
        return answered

    disguise = Disguise(app, folder)
    answer = asyncio.run(ask("/upload", b""))
    assert str(folder).encode() not in answer
    assert len(answer) == len(f'["{folder}/hash/a.png"]')
    shown = answer[2:-2].decode()
    again = asyncio.run(ask(f"/file={shown}", f'{{"path": "{shown}"}}'.encode()))
    assert again == answer
    assert seen["path"] == f"/file={folder}/hash/a.png"
    assert seen["body"] == f'{{"path": "{folder}/hash/a.png"}}'.encode()
    assert all(name != b"accept-encoding" for name, _ in seen["headers"])
    for path, visitor in ((shown, "w" * 32), (shown.replace("/hash", "/other"), "v" * 32), (f"{folder}/h/a", "v" * 32)):
        asyncio.run(ask(f"/file={path}", path.encode(), visitor))
        assert str(folder) not in seen["path"]
        assert str(folder).encode() not in seen["body"]


def test_a_path_too_short_to_replace_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        Disguise(lambda *_: None, Path("/tmp"))  # type: ignore[arg-type, return-value]
