"""The page as a person uses it, in a real browser with no way out to the network."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from spotchange.serving.server import TEMPORARY

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.slow]

Draw = Callable[..., bytes]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the network is closed
]
FIRST_BUTTON = {"Two pictures": "#ask", "Many pairs": "#ask-batch", "Test it": "#make"}
PATIENCE = 180_000  # milliseconds, on a busy machine


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    with playwright.sync_playwright() as made:
        opened = made.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()


class Visit:
    """A page with a log of every request it made and every complaint of the browser."""

    def __init__(self, browser: Any, address: str, *, size: dict[str, int], scheme: str) -> None:
        self.address = address
        self.context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.requested: list[str] = []
        self.complaints: list[str] = []
        self.leaks: list[str] = []
        self.finished: list[Any] = []
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("requestfinished", lambda request: self.finished.append(request))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.goto(address)
        self.page.wait_for_selector("#ask")

    def choose(self, before: bytes, after: bytes, name: str = "picture.png") -> None:
        for side, content in (("before", before), ("after", after)):
            self.upload(f"#picture-{side}", {"name": name, "mimeType": "image/png", "buffer": content})

    def upload(self, component: str, files: Any, shows: str = "") -> None:
        """Give files to an input; again where nothing is sent, or `shows` stays away for long.

        The framework wires an input after it shows it, and draws it anew under load: what it held is then lost.
        """
        for _ in range(10):
            with contextlib.suppress(playwright.TimeoutError):
                with self.page.expect_request(lambda request: "/upload" in request.url, timeout=15_000):
                    self.page.set_input_files(f"{component} input[type=file]", files)
                if shows:
                    self.page.locator(f"{component} {shows}").first.wait_for(timeout=30_000)
                return
        raise AssertionError(f"{component} sent no upload")

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()
        self.page.locator(FIRST_BUTTON[name]).wait_for()

    def read_answer(self, response: Any) -> None:
        """Remember answers that name the server's temporary folder."""
        kind = response.headers.get("content-type", "")
        if "json" in kind or "event-stream" in kind or "html" in kind:
            with contextlib.suppress(playwright.Error):  # a stream that is still open
                if TEMPORARY in response.text():
                    self.leaks.append(response.url)

    def snap(self, name: str) -> None:
        """A screenshot to look at, where a folder for them is named."""
        folder = os.environ.get("SPOTCHANGE_SCREENSHOTS")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    def outside(self) -> list[str]:
        """Requests that went anywhere but to our server."""
        home = urlsplit(self.address).netloc
        return [
            url for url in self.requested if not url.startswith(("data:", "blob:")) and urlsplit(url).netloc != home
        ]


@pytest.fixture
def visit(browser: Any, page_server: Any) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def open_page(size: dict[str, int] = DESKTOP, scheme: str = "light") -> Visit:
        visits.append(Visit(browser, page_server.address, size=size, scheme=scheme))
        return visits[-1]

    yield open_page
    for each in visits:
        assert each.requested
        assert each.outside() == []
        assert each.complaints == []
        for request in each.finished:
            each.read_answer(request.response())
        assert each.leaks == []
        assert not [url for url in each.requested if TEMPORARY in url]
        each.context.close()


def test_upload_read_slide(visit: Any, captioner: Any, draw: Draw) -> None:
    shown = visit()
    page = shown.page
    before, after = draw(1, size=(240, 160)), draw(2, size=(240, 160))
    shown.choose(before, after)
    expected = captioner.caption(before, after)
    sentence = page.locator("#answer .sc-sentence")
    sentence.wait_for()
    assert sentence.inner_text().lower() == expected.caption
    assert f"{expected.change_score:.2f}" in page.locator("#answer .sc-score").inner_text()
    assert page.locator("#answer .sc-verdict").inner_text().startswith("changed" if expected.changed else "unchanged")
    assert page.locator("#answer li").count() == len(expected.alternatives)
    assert re.search(r"in \d+ ms", page.locator("#answer").inner_text())
    assert page.locator("#answer .sc-marked img").count() == 2
    slider = page.locator("#answer .sc-range")
    after_side = page.locator("#answer .sc-after")
    slider.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert "60%" in after_side.evaluate("side => getComputedStyle(side).clipPath")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    page.mouse.up()
    assert 22 <= int(slider.input_value()) <= 28
    shown.snap("desktop-answer")
    marks = page.locator("#answer .sc-box")
    assert marks.count() == len(expected.regions)
    page.get_by_label("Mark what changed").uncheck()
    assert all(not marks.nth(number).is_visible() for number in range(marks.count()))


def test_a_bad_file_is_named_and_the_next_one_works(visit: Any, draw: Draw) -> None:
    shown = visit()
    page = shown.page
    shown.choose(draw(1), b"this is not a picture")
    alert = page.locator("#answer [role=alert]")
    alert.wait_for()
    assert "After: picture is not an image" in alert.inner_text()
    assert "/" not in alert.inner_text()
    page.click("#clear")
    page.locator("#answer .sc-hint").wait_for()
    shown.choose(draw(1), draw(2))
    page.locator("#answer .sc-sentence").wait_for()
    shown.complaints = [text for text in shown.complaints if "decode" not in text]


def test_examples_and_swap_by_keyboard(visit: Any) -> None:
    shown = visit(scheme="dark")
    page = shown.page
    assert page.locator(".sc-example").count() >= 3
    page.locator(".sc-example").first.focus()
    page.keyboard.press("Enter")
    page.locator("#answer .sc-sentence").wait_for()
    views = "#answer .sc-stage .sc-side > img"
    first = page.locator(views).first.get_attribute("src")
    page.locator("#swap").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(
        "first => document.querySelector('#answer .sc-stage .sc-side > img')?.src !== first", arg=first
    )
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("#answer").get_attribute("aria-live") == "polite"


def archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    return stream.getvalue()


def test_many_pairs_from_a_zip(visit: Any, captioner: Any, draw: Draw, tmp_path: Path, browser: Any) -> None:
    shown = visit()
    page = shown.page
    members = {f"shots/before/{n}.png": draw(n) for n in range(3)} | {
        f"shots/after/{n}.png": draw(n + 1) for n in range(3)
    }
    members |= {"shots/before/bad.png": draw(1), "shots/after/bad.png": b"no picture"}
    shown.tab("Many pairs")
    file = {"name": "pairs.zip", "mimeType": "application/zip", "buffer": archive(members)}
    shown.upload("#zip", file, shows=".file-preview")
    page.click("#ask-batch")
    page.locator("#batch-answer table").wait_for()
    assert page.locator("#batch-answer tbody tr").count() == 4
    assert page.locator("#batch-answer .sc-thumbnail").count() == 6
    shown.snap("desktop-batch")
    with page.expect_download() as lines:
        page.locator("#download-jsonl").click()
    lines.value.save_as(tmp_path / "results.jsonl")
    told = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["id"] for line in told] == ["0.png", "1.png", "2.png", "bad.png"]
    assert told[1]["caption"] == captioner.caption(draw(1), draw(2)).caption
    assert told[3].keys() == {"id", "error"}
    with page.expect_download() as report:
        page.locator("#download-report").click()
    report.value.save_as(tmp_path / "report.html")
    alone = browser.new_page()
    asked: list[str] = []
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto((tmp_path / "report.html").as_uri())
    assert alone.locator("article").count() == 4
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    alone.close()


def test_two_folders(visit: Any, draw: Draw, tmp_path: Path) -> None:
    shown = visit()
    for number, name in enumerate(("main", "branch")):
        (tmp_path / name).mkdir()
        for file in ("home.png", "about.png"):
            (tmp_path / name / file).write_bytes(draw(number))
    shown.tab("Many pairs")
    shown.upload("#folder-before", tmp_path / "main", shows=".file-preview")
    shown.upload("#folder-after", tmp_path / "branch", shows=".file-preview")
    shown.page.click("#ask-batch")
    shown.page.locator("#batch-answer table").wait_for()
    names = shown.page.locator("#batch-answer td[data-name=Pair]").all_inner_texts()
    assert names == ["about.png", "home.png"]


def test_a_scene_made_here_is_judged(visit: Any) -> None:
    shown = visit()
    shown.tab("Test it")
    shown.page.get_by_label("an object gone").check()
    shown.page.click("#make")
    judged = shown.page.locator("#scene-answer .sc-message").first
    shown.page.locator("#scene-answer .sc-sentence").wait_for(timeout=150_000)  # the renderer compiles the first time
    assert re.search(r"The model is (right|wrong)", judged.inner_text())
    assert "What was done: " in judged.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_sticks_out(visit: Any, draw: Draw, scheme: str) -> None:
    shown = visit(PHONE, scheme)
    shown.choose(draw(1, size=(240, 160)), draw(2, size=(240, 160)))
    shown.page.locator("#answer .sc-sentence").wait_for()
    for name in ("Two pictures", "Many pairs", "Test it"):
        shown.tab(name)
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
        shown.snap(f"phone-{scheme}-{name.replace(' ', '-')}".lower())
    background = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [int(value) for value in re.findall(r"\d+", background)[:3]]
    assert (sum(channels) < 200) == (scheme == "dark")


def test_an_address_instead_of_a_file_is_not_fetched(page_server: Any) -> None:
    """Somebody could ask the framework to download an image: it must not call anybody."""
    config = httpx.get(f"{page_server.address}/config").json()
    image = next(part for part in config["components"] if part["props"].get("elem_id") == "picture-before")
    number, event = next(
        (number, each)
        for number, each in enumerate(config["dependencies"])
        if each["inputs"]
        and each["inputs"][0] == image["id"]
        and len(each["inputs"]) == 2
        and len(each["outputs"]) == 1
    )
    sent = {"path": "http://example.invalid/x.png", "meta": {"_type": "gradio.FileData"}}
    body = {"data": [sent, sent], "fn_index": event.get("id", number), "session_hash": "test"}
    with httpx.Client(base_url=page_server.address, timeout=120) as client:
        assert client.post("/gradio_api/queue/join", json=body).status_code == 200
        with client.stream("GET", "/gradio_api/queue/data?session_hash=test") as stream:
            done = next(line for line in stream.iter_lines() if "process_completed" in line)
    assert '"success":false' in done.replace(" ", "")
    assert "example.invalid" not in done


def test_the_page_asks_for_the_key(launch: Any) -> None:
    server = launch(SPOTCHANGE_API_KEY="open-sesame")
    with httpx.Client(base_url=server.address, timeout=120) as client:
        assert client.get("/config").status_code == 401
        assert client.post("/gradio_api/queue/join", json={"data": []}).status_code == 401
        assert client.post("/login", data={"username": "me", "password": "wrong-key"}).status_code == 400
        assert client.post("/login", data={"username": "me", "password": "open-sesame"}).status_code == 200
        assert client.get("/config").status_code == 200
        assert client.get("/v1/models").status_code == 401


def test_an_open_page_does_not_hold_up_the_end(launch: Any) -> None:
    server = launch()
    with (
        httpx.Client(base_url=server.address, timeout=60) as client,
        client.stream("GET", "/gradio_api/heartbeat/somebody") as stream,
    ):
        lines = stream.iter_lines()
        assert "ALIVE" in next(lines)
        assert server.stop(timeout=20) == 0  # accepted requests would have 30 seconds
