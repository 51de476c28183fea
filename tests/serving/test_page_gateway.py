"""No route of the page's framework hands out a file that this visitor did not upload."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

Draw = Callable[..., bytes]
SECRET = b"a secret of this machine"
KEY = "open-sesame"


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("private") / "secret.svg"
    path.write_bytes(SECRET)
    return path


@pytest.fixture(params=["no key", "key given", "key missing"])
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Every way to come to the gateway; `locked` says who must stay outside."""
    name = "page_server" if request.param == "no key" else "locked_server"
    server = request.getfixturevalue(name)
    with httpx.Client(base_url=server.address, timeout=120) as made:
        made.headers["x-test"] = request.param
        if request.param == "key given":
            assert made.post("/login", data={"username": "me", "password": KEY}).status_code == 200
        yield made


LIST_ROUTES = """
import json
import gradio as gr
from gradio.routes import App

found = set()

def walk(routes):
    for route in routes:
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        if getattr(route, "methods", None) and hasattr(route, "path"):
            found.update((method, route.path) for method in route.methods)
        elif inner is not None and hasattr(inner, "routes"):
            walk(inner.routes)

with gr.Blocks() as blocks:
    gr.Image()
walk(App.create_app(blocks).routes)
print(json.dumps(sorted(found)))
"""


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Every method and path the installed framework answers, whatever a later version adds."""
    folder = tmp_path_factory.mktemp("routes")
    listed = subprocess.run([sys.executable, "-c", LIST_ROUTES], check=True, capture_output=True, cwd=folder, text=True)
    return [(method, path) for method, path in json.loads(listed.stdout.splitlines()[-1])]


def ask(client: httpx.Client, method: str, url: str, **sent: Any) -> tuple[int, bytes]:
    """Status and the beginning of the answer; open streams are left after their first piece."""
    with client.stream(method, url, **sent) as answer:
        return answer.status_code, next(answer.iter_bytes(), b"")


def test_no_route_gives_a_foreign_file(client: httpx.Client, routes: list[tuple[str, str]], secret: Path) -> None:
    paths = {path for _, path in routes}
    assert len(paths) > 40
    assert "/gradio_api/queue/join" in paths
    file_data = {"path": str(secret), "url": str(secret), "meta": {"_type": "gradio.FileData"}}
    body = {"data": [file_data, file_data], "fn_index": 0, "session_hash": "x", "component_id": 1, "fn_name": "x"}
    opened = {"/", "/login", "/login/", "/favicon.ico", "/theme.css", "/robots.txt", "/manifest.json"}
    opened |= {"/gradio_api/theme.css", "/static/{path:path}", "/svelte/{path:path}", "/assets/{path:path}"}
    for method, path in routes:
        if path in ("/login", "/login/", "/logout"):
            continue  # tested below
        for value in (str(secret), f"../../../..{secret}", quote(str(secret), safe="")):
            url = re.sub(r"\{[^}]*\}", lambda _, value=value: value, path)
            if not url.startswith("/"):
                continue
            status, start = ask(client, method, url, json=body if method == "POST" else None)
            assert SECRET not in start, (method, url)
            if client.headers["x-test"] == "key missing" and path not in opened:
                assert status in (401, 404, 405), (method, url, status)


def events_of(client: httpx.Client) -> list[dict[str, Any]]:
    config: dict[str, Any] = client.get("/config").json()
    return list(config["dependencies"])


def process(client: httpx.Client, event: dict[str, Any], data: list[Any]) -> str:
    """Post to the queue as the page does; the message that ends it."""
    body = {"data": data, "fn_index": event["id"], "session_hash": f"s{event['id']}"}
    answer = client.post("/gradio_api/queue/join", json=body)
    assert answer.status_code == 200, answer.text
    with client.stream("GET", f"/gradio_api/queue/data?session_hash=s{event['id']}") as stream:
        return next(line for line in stream.iter_lines() if "process_completed" in line)


@pytest.mark.parametrize("extra", [{}, {"is_stream": True}, {"url": "http://example.invalid/x"}], ids=str)
def test_no_event_takes_a_foreign_file(client: httpx.Client, secret: Path, extra: dict[str, Any]) -> None:
    if client.headers["x-test"] == "key missing":
        assert client.get("/config").status_code == 401
        for path in ("queue/join", "upload", "cancel", "reset"):
            assert client.post(f"/gradio_api/{path}", json={}).status_code == 401
        for path in ("queue/data?session_hash=x", "heartbeat/x", "app_id", "startup-events", f"file={secret}"):
            assert client.get(f"/gradio_api/{path}").status_code == 401
        return
    for path in (secret, Path("/etc/passwd"), Path("/proc/self/environ")):
        sent = {"path": str(path), "orig_name": "before/a.png", "meta": {"_type": "gradio.FileData"}} | extra
        for event in events_of(client):
            if not event["inputs"]:
                continue
            for data in ([sent] * len(event["inputs"]), [[sent]] * len(event["inputs"])):
                done = process(client, event, data)
                assert '"success":false' in done.replace(" ", ""), done
                assert str(path) not in done
                for named in re.findall(r"/[^\s\"']*", done):
                    assert SECRET not in ask(client, "GET", f"/gradio_api/file={quote(named)}")[1]


def test_a_visitor_sees_only_their_own_uploads(page_server: Any, draw: Draw) -> None:
    with (
        httpx.Client(base_url=page_server.address, timeout=120) as mine,
        httpx.Client(base_url=page_server.address, timeout=120) as other,
    ):
        files = {"files": ("a.png", draw(1), "image/png")}
        mine.get("/config")
        other.get("/config")
        (name,) = mine.post("/gradio_api/upload", files=files).json()
        assert mine.get(f"/gradio_api/file={name}").content == draw(1)
        assert other.get(f"/gradio_api/file={name}").status_code == 403
        assert other.get("/gradio_api/file=" + str(next(page_server.folder.glob("spotchange*")))).status_code == 403
        event = next(each for each in events_of(mine) if len(each["inputs"]) == 2 and len(each["outputs"]) == 2)
        sent = {"path": name, "meta": {"_type": "gradio.FileData"}}
        assert '"success":true' in process(mine, event, [sent, sent]).replace(" ", "")
        assert '"success":false' in process(other, event, [sent, sent]).replace(" ", "")


def test_examples_are_served(page_server: Any) -> None:
    with httpx.Client(base_url=page_server.address, timeout=120) as client:
        event = next(each for each in events_of(client) if not each["inputs"] and len(each["outputs"]) == 2)
        done = json.loads(process(client, event, []).removeprefix("data: "))
        shown = done["output"]["data"][0]["url"]
        assert client.get(httpx.URL(shown).raw_path.decode()).content.startswith(b"\xff\xd8")


@pytest.mark.parametrize("path", ["/gradio_api/proxy=http://example.invalid", "/gradio_api/token", "/?deep_link=../x"])
def test_routes_the_page_does_not_need_are_closed(page_server: Any, path: str) -> None:
    assert httpx.get(f"{page_server.address}{path}", timeout=120).status_code == 404
