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
        headers.append((b"content-type", b"application/json"))
        scope = {"type": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        await disguise(scope, receive, send)
        answered: bytes = sent[1]["body"]
        return answered

    disguise = Disguise(app, folder)
    answer = asyncio.run(ask("/config", b""))
    assert str(folder).encode() not in answer
    assert len(answer) == len(f'["{folder}/hash/a.png"]')
    shown = answer[2:-2].decode()
    again = asyncio.run(ask(f"/file={shown}", f'{{"path": "{shown}"}}'.encode()))
    assert again == answer
    assert seen["path"] == f"/file={folder}/hash/a.png"
    assert seen["body"] == f'{{"path": "{folder}/hash/a.png"}}'.encode()
    assert all(name != b"accept-encoding" for name, _ in seen["headers"])
    for path, visitor in ((shown, "w" * 32), (shown.replace("/hash", "/other"), "v" * 32), (f"{folder}/h/a", "v" * 32)):
        asyncio.run(ask(f"/file={path}", f'["{path}"]'.encode(), visitor))
        assert str(folder) not in seen["path"]
        assert str(folder).encode() not in seen["body"]


@pytest.mark.parametrize("way", ["/../{}", "/x/../../{}", "/" + "./" * 3000 + "../{}"])
def test_a_name_leads_only_into_its_own_folder(way: str) -> None:
    """Another visitor's folder is a checksum, which somebody may know; nobody may walk there from their own."""
    disguise = Disguise(lambda *_: None, Path("/var/tmp/a-folder-of-the-server.xyz"))  # type: ignore[arg-type, return-value]
    mine = disguise.with_names(b"/var/tmp/a-folder-of-the-server.xyz/mine", "v" * 32)
    assert disguise.with_paths(mine + b"/a..b.png", "v" * 32).endswith(b"xyz/mine/a..b.png")
    for text in (mine.decode() + way.format("other/b.png"), mine.decode() + way.format("")):
        assert disguise.with_paths(text.encode(), "v" * 32).startswith(b"/nowhere/")


def test_escapes_in_a_call_hide_nothing() -> None:
    folder = Path("/var/tmp/a-folder-of-the-server.xyz")
    seen: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((await receive())["body"])

    async def call(body: bytes) -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        headers = [(b"cookie", f"{COOKIE}={'v' * 32}".encode()), (b"content-type", b"application/json")]
        scope = {"type": "http", "path": "/x", "raw_path": b"/x", "query_string": b"", "headers": headers}
        await disguise(scope, receive, lambda message: asyncio.sleep(0))

    disguise = Disguise(app, folder)
    mine = disguise.with_names(f"{folder}/mine".encode(), "v" * 32).decode()
    for path in (rf"{mine}/\u002e\u002e/other/b.png", str(folder).replace("/", r"\u002f") + "/other/b.png"):
        asyncio.run(call(f'["{path}"]'.encode()))
    assert seen == [b'["/nowhere/../other/b.png"]', b'["/nowhere/other/b.png"]']


def test_files_pass_as_they_are_and_refusals_do_not() -> None:
    """A path inside a file could lie across two pieces; the framework's refusals name the path they refuse."""
    path = b"/var/tmp/a-folder-of-the-server.xyz/mine/a.png"
    statuses = [200, 403]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": statuses.pop(0), "headers": []})
        await send({"type": "http.response.body", "body": path})

    async def ask() -> bytes:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/gradio_api/file=x", "query_string": b"", "headers": []}
        await disguise(scope, lambda: asyncio.sleep(0), send)  # type: ignore[arg-type, return-value]
        answered: bytes = sent[1]["body"]
        return answered

    disguise = Disguise(app, Path("/var/tmp/a-folder-of-the-server.xyz"))
    assert asyncio.run(ask()) == path
    assert path not in asyncio.run(ask())


def test_a_path_too_short_to_replace_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        Disguise(lambda *_: None, Path("/tmp"))  # type: ignore[arg-type, return-value]
