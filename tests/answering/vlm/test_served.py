"""`openai:` models over real HTTP: every pair ends with an answer or an error row, whatever the server does."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spotchange.answering import ImagePair, load
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.errors import InputError, ReplyError

KEY = "sk-never-to-be-seen"
GOOD = json.dumps({"changed": True, "caption": "the red mug is gone"})


def completion(text: str, **choice: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 12},
    }


class Server(ThreadingHTTPServer):
    """Counts requests by the images they carry and answers by a script: (request body, tries so far) -> reply."""

    daemon_threads = True

    def __init__(self, script: Callable[[dict[str, Any], int], Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.tries: Counter[str] = Counter()
        self.most_at_once = 0
        self._at_once = 0
        self.lock = threading.Lock()
        self.headers_seen: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []

    @property
    def model(self) -> str:
        return f"openai:http://127.0.0.1:{self.server_address[1]}/v1#tiny"

    def enter(self, step: int) -> None:
        with self.lock:
            self._at_once += step
            self.most_at_once = max(self.most_at_once, self._at_once)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.enter(1)
        try:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = json.dumps(body["messages"][-1])
            with self.server.lock:
                self.server.tries[key] += 1
                tries = self.server.tries[key]
                self.server.headers_seen.append({name.lower(): value for name, value in self.headers.items()})
                self.server.bodies.append(body)
            self._reply(self.server.script(body, tries))
        finally:
            self.server.enter(-1)

    def _reply(self, reply: Any) -> None:
        if reply is None:  # cut the connection
            self.connection.close()
            return
        status, content, headers = reply if isinstance(reply, tuple) else (200, reply, {})
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[dict[str, Any], int], Any]], Server]]:
    servers: list[Server] = []

    def start(script: Callable[[dict[str, Any], int], Any]) -> Server:
        server = Server(script)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def pairs(count: int) -> list[ImagePair]:
    rng = np.random.default_rng(3)
    images = [Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)) for _ in range(2 * count)]
    return [ImagePair.of(before, after) for before, after in zip(images[::2], images[1::2], strict=True)]


def ask(server: Server, count: int = 1, **options: str) -> list[Any]:
    answerer = build_vlm(server.model, {"no_cache": "true", "retries": "3", **options}, device="cpu")
    return list(answerer.answer(pairs(count), CaptionOptions()))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotchange.answering.vlm.server._backoff", lambda attempt: 0.01)


def test_an_answer_has_the_models_words_and_the_comparisons_regions(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    (answer,) = ask(server)
    assert (answer.result.caption, answer.result.changed, answer.result.source) == ("the red mug is gone", True, "vlm")
    assert answer.result.model == "tiny"
    assert answer.result.regions
    (body,) = server.bodies
    kinds = [part["type"] for part in body["messages"][-1]["content"]]
    assert kinds == ["image_url", "image_url", "text"]
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["changed", "caption"]


def test_identical_pixels_are_never_asked_about(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    image = Image.new("RGB", (8, 8), "red")
    answerer = build_vlm(server.model, {"no_cache": "true"}, device="cpu")
    (answer,) = answerer.answer([ImagePair.of(image, image.copy())], CaptionOptions())
    assert isinstance(answer, Answer)
    assert not answer.result.changed
    assert server.bodies == []


@pytest.mark.parametrize(
    "fault",
    [
        (429, {"error": "slow down"}, {"retry-after": "0"}),
        (500, "oops", {}),
        (503, "later", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        None,
    ],
    ids=["429", "500", "503 with a date", "cut connection"],
)
def test_passing_faults_are_tried_again_and_no_pair_is_lost(serve: Any, fault: Any) -> None:
    server = serve(lambda body, tries: fault if tries <= 2 else completion(GOOD))
    outcomes = ask(server, 5)
    assert [type(each) for each in outcomes] == [Answer] * 5
    assert set(server.tries.values()) == {3}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (completion("I think the mug is gone."), "not JSON"),
        (completion(json.dumps({"changed": "yes", "caption": "x"})), "neither true nor false"),
        (completion(json.dumps({"caption": "x"})), "other keys"),
        (completion(json.dumps({"changed": True, "caption": ""})), "no sentence"),
        (completion(json.dumps([1])), "other keys"),
        (completion(GOOD, finish_reason="length"), "cut off"),
        ({"choices": []}, "no chat completion"),
        ("<html>", "no chat completion"),
        ((401, {"error": "no key"}, {}), "answered 401"),
        ((404, "no such model", {}), "answered 404"),
    ],
)
def test_an_unusable_reply_is_an_error_of_its_pair_alone(serve: Any, reply: Any, words: str) -> None:
    first = json.dumps(None)

    def script(body: dict[str, Any], tries: int) -> Any:
        nonlocal first
        url = body["messages"][-1]["content"][0]["image_url"]["url"]
        if first == "null":
            first = url
        return reply if url == first else completion(GOOD)

    outcomes = ask(serve(script), 3, concurrency="1")
    assert isinstance(outcomes[0], ReplyError)
    assert words in outcomes[0].message
    assert [type(each) for each in outcomes[1:]] == [Answer, Answer]


def test_a_slow_server_becomes_an_error_row(serve: Any) -> None:
    server = serve(lambda body, tries: time.sleep(0.6) or completion(GOOD))
    (outcome,) = ask(server, timeout="0.1", retries="1")
    assert isinstance(outcome, ReplyError)
    assert "2 tries" in outcome.message


def test_a_server_without_schemas_is_asked_without_one(serve: Any) -> None:
    server = serve(
        lambda body, tries: (
            (400, "unknown field response_format", {}) if "response_format" in body else completion(GOOD)
        )
    )
    assert [type(each) for each in ask(server, 3, concurrency="1")] == [Answer] * 3
    assert "response_format" not in server.bodies[-1]


def test_concurrency_is_bounded(serve: Any) -> None:
    server = serve(lambda body, tries: time.sleep(0.05) or completion(GOOD))
    ask(server, 8, concurrency="2")
    assert server.most_at_once == 2


def test_the_key_is_sent_and_never_shown(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve(lambda body, tries: (500, f"bad key {len(KEY)}", {}) if tries == 1 else completion(GOOD))
    cache = tmp_path / "replies.sqlite"
    answerer = build_vlm(server.model, {"cache": str(cache)}, device="cpu")
    (answer,) = answerer.answer(pairs(1), CaptionOptions())
    assert server.headers_seen[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    assert KEY not in json.dumps(answer.result.to_dict())
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    assert "sent to 127.0.0.1" in caplog.text


def test_replies_are_cached_by_images_prompt_and_model(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    options = {"cache": str(tmp_path / "replies.sqlite")}
    for expected in (2, 2):
        answerer = build_vlm(server.model, options, device="cpu")
        answers = answerer.answer(pairs(2), CaptionOptions())
        assert len(server.bodies) == expected
    assert answerer.tokens == {"prompt": 0, "reply": 0, "asked": 0, "cached": 2}
    assert [type(each) for each in answers] == [Answer, Answer]
    build_vlm(server.model, options | {"prompt": "clevr-change"}, device="cpu").answer(pairs(2), CaptionOptions())
    assert len(server.bodies) == 4


def test_an_unusable_reply_is_not_cached(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion("no JSON" if tries == 1 else GOOD))
    answerer = build_vlm(server.model, {"cache": str(tmp_path / "replies.sqlite")}, device="cpu")
    assert isinstance(answerer.answer(pairs(1), CaptionOptions())[0], ReplyError)
    assert isinstance(answerer.answer(pairs(1), CaptionOptions())[0], Answer)


def test_a_change_score_from_probabilities(serve: Any) -> None:
    def script(body: dict[str, Any], tries: int) -> Any:
        if not body.get("logprobs"):
            return completion(GOOD)
        top = [{"token": "Yes", "logprob": float(np.log(0.6))}, {"token": " no", "logprob": float(np.log(0.2))}]
        return completion("Yes", finish_reason="length", logprobs={"content": [{"top_logprobs": top}]})

    (answer,) = ask(serve(script), score="true")
    assert answer.result.change_score == pytest.approx(0.75, abs=1e-4)


def test_hints_tell_what_the_pixels_show(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    ask(server, hints="true")
    assert "pixel comparison reports" in server.bodies[0]["messages"][-1]["content"][-1]["text"]


def test_every_difference_is_asked_for(serve: Any) -> None:
    many = {"changed": True, "caption": "two things changed", "differences": ["the mug is gone", "the lamp is on"]}
    server = serve(lambda body, tries: completion(json.dumps(many)))
    (answer,) = ask(server, differences="many")
    assert [each.text for each in answer.result.alternatives] == many["differences"]


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("openai:ftp://host#m", {}, "no server address"),
        ("openai:http://127.0.0.1/v1", {}, "names no model"),
        ("openai:http://user:secret@127.0.0.1/v1#m", {}, "key does not belong"),
        ("openai:http://127.0.0.1/v1#m", {"promt": "x"}, "did you mean 'prompt'"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "nothing"}, "no prompt"),
        ("vlm:", {}, "names no model"),
    ],
)
def test_bad_settings_are_one_line(model: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        load(model, model_options=options)
    assert isinstance(caught.value, Exception)
    assert "secret" not in str(caught.value)


def test_our_own_models_take_no_such_options() -> None:
    with pytest.raises(InputError, match="vision-language"):
        load("bundled", model_options={"prompt": "sentence"})
