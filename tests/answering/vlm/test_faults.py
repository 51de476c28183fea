"""Whatever a server does, every pair ends with an answer or an error row: none twice, none lost."""

from __future__ import annotations

import gzip
import hashlib
import json
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import GOOD, ask, pairs

from scripted_server import completion
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.answering.vlm.sent_images import data_url
from spotchange.errors import ReplyError


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


def test_every_pair_ends_once_whatever_happens_on_the_way(serve: Any) -> None:
    """Sixty pairs, each with its own seeded row of faults before its last word, eight requests at a time."""
    passing = [(429, "", {"retry-after": "0"}), (500, "", {}), (502, "<html>", {}), None]
    last = [completion(GOOD), completion("nonsense"), completion(json.dumps({"caption": "x"})), "<html>", (404, "", {})]
    plans: dict[str, list[Any]] = {}
    ended: Counter[str] = Counter()

    def script(body: dict[str, Any], tries: int) -> Any:
        url = body["messages"][-1]["content"][0]["image_url"]["url"]
        with server.lock:
            rng = np.random.default_rng(int(hashlib.sha256(url.encode()).hexdigest()[:8], 16))
            plan = plans.setdefault(
                url, [*(passing[i] for i in rng.integers(0, 4, rng.integers(0, 4))), last[rng.integers(0, 5)]]
            )
            reply = plan[min(tries, len(plan)) - 1]
            if tries >= len(plan):
                ended[url] += 1
        return reply

    server = serve(script)
    outcomes = ask(server, 60, concurrency="8", retries="3")
    assert len(outcomes) == 60
    urls = [data_url(pair.before, "png") for pair in pairs(60)]
    for url, outcome in zip(urls, outcomes, strict=True):
        good = plans[url][-1] == completion(GOOD)
        assert isinstance(outcome, Answer if good else ReplyError), plans[url]
    assert {len(plan) for plan in plans.values()} == {1, 2, 3, 4}
    assert set(ended.values()) == {1}  # none is asked again after its last word
    assert len(ended) == 60


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (completion("I think the mug is gone."), "not JSON"),
        (completion(json.dumps({"changed": "yes", "caption": "x"})), "neither true nor false"),
        (completion(json.dumps({"caption": "x"})), "other keys"),
        (completion(json.dumps({"changed": True, "caption": ""})), "no sentence"),
        (completion(json.dumps([1])), "other keys"),
        (completion(json.dumps({"changed": True, "caption": 2001 * "x"})), "no sentence"),
        (completion(json.dumps({"changed": True, "caption": "Nothing changed."})), "contradicts itself"),
        (completion('{"changed": true, "changed": false, "caption": "x"}'), "says 'changed' twice"),
        (completion(GOOD, finish_reason="length"), "cut off"),
        (completion([]), "not JSON: ''"),
        (completion([{"type": "image_url", "image_url": {"url": "data:,"}}]), "not JSON: ''"),
        (completion([{"type": "thinking", "thinking": "hm"}], finish_reason="length"), "cut off"),
        (completion([{"type": "text", "text": GOOD}, {"type": "refusal", "refusal": "No\nmugs."}]), "reply: No mugs."),
        (completion([{"type": "refusal", "refusal": ["No"]}]), "no chat completion"),
        (completion([{"type": "text", "text": 3}]), "no chat completion"),
        (completion([{"type": "text"}]), "no chat completion"),
        (completion([GOOD]), "no chat completion"),
        (completion({"type": "text", "text": GOOD}), "no chat completion"),
        ({"choices": []}, "no chat completion"),
        ("<html>", "no chat completion"),
        ((401, {"error": "no key"}, {}), "answered 401"),
        ((404, "no such model", {}), "answered 404"),
    ],
)
def test_an_unusable_reply_is_an_error_of_its_pair_alone(serve: Any, reply: Any, words: str) -> None:
    first: list[str] = []

    def script(body: dict[str, Any], tries: int) -> Any:
        url = body["messages"][-1]["content"][0]["image_url"]["url"]
        first.append(url)
        return reply if url == first[0] else completion(GOOD)

    outcomes = ask(serve(script), 3, concurrency="1")
    assert isinstance(outcomes[0], ReplyError)
    assert words in outcomes[0].message
    assert "\n" not in outcomes[0].message
    assert [type(each) for each in outcomes[1:]] == [Answer, Answer]


def test_an_endless_answer_is_not_read_to_its_end(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a long one nor a short one that unpacks to a long one."""
    monkeypatch.setattr("spotchange.answering.vlm.exchange.LONGEST_BODY", 100_000)
    packed = gzip.compress(bytes(10_000_000))
    for reply in ("x" * 200_000, (200, packed, {"content-encoding": "gzip"})):
        server = serve(lambda body, tries, reply=reply: reply)
        (outcome,) = ask(server)
        assert isinstance(outcome, ReplyError)
        assert "more than 100,000 bytes" in outcome.message
        assert len(server.bodies) == 1  # asking again would not help


def test_halves_of_letters_in_a_reply_reach_nobody(serve: Any) -> None:
    text = '{"changed": true, "caption": "the mug \\ud800 is gone"}'
    (answer,) = ask(serve(lambda body, tries: completion(text)))
    assert answer.result.caption == "the mug ? is gone"
    (answer,) = ask(serve(lambda body, tries: completion('{"changed": true, "caption": "a \ud800 b"}')))
    assert answer.result.caption == "a ? b"


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
    # All at once, and without a second try: each request meets the refusal on its own, and none may be lost to it.
    assert [type(each) for each in ask(server, 6, concurrency="6", retries="0")] == [Answer] * 6
    assert "response_format" not in server.bodies[-1]


def test_a_request_refused_for_another_reason_keeps_the_schema(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD) if tries > 2 else (400, "too large", {}))
    answerer = build_vlm(server.model, {"no_cache": "true"}, device="cpu")
    (refused,) = answerer.answer(pairs(1), CaptionOptions())
    assert isinstance(refused, ReplyError)
    answerer.answer(pairs(1), CaptionOptions())
    assert "response_format" in server.bodies[-1]


def test_a_limit_by_another_name(serve: Any) -> None:
    complaint = (400, "use max_completion_tokens instead", {})
    server = serve(lambda body, tries: complaint if "max_tokens" in body else completion(GOOD))
    assert [type(each) for each in ask(server, 3, concurrency="1")] == [Answer] * 3
    assert server.bodies[-1]["max_completion_tokens"] == 200
    assert len(server.bodies) == 4


def test_an_answer_that_drips_does_not_hold_a_pair_for_ever(serve: Any) -> None:
    server = serve(lambda body, tries: (200, completion(GOOD), {"x-drip": "0.05"}))
    (outcome,) = ask(server, timeout="0.3", retries="0")
    assert isinstance(outcome, ReplyError)
    assert "TimeoutError" in outcome.message


def test_a_model_that_only_thought_was_cut_off(serve: Any) -> None:
    """Servers with a parser for thoughts answer so; it is no broken server."""
    (outcome,) = ask(serve(lambda body, tries: completion(None, finish_reason="length")))
    assert "cut off: max_new_tokens is too small" in outcome.message


def test_a_model_that_wants_its_own_temperature(serve: Any, caplog: pytest.LogCaptureFixture) -> None:
    complaint = (400, "Unsupported value: 'temperature' does not support 0 with this model.", {})
    server = serve(lambda body, tries: complaint if "temperature" in body else completion(GOOD))
    assert [type(each) for each in ask(server, 3, concurrency="1", retries="0")] == [Answer] * 3
    assert len(server.bodies) == 4
    assert "response_format" in server.bodies[-1]
    assert caplog.text.count("chooses the temperature itself") == 1


def test_why_nobody_could_be_reached_is_said() -> None:
    answerer = build_vlm("openai:http://localhost:1/v1#m", {"no_cache": "true", "retries": "0"}, device="cpu")
    (outcome,) = answerer.answer(pairs(1), CaptionOptions())
    assert isinstance(outcome, ReplyError)
    assert outcome.message == "ConnectError while asking localhost:1: All connection attempts failed (1 try)"


def test_tokens_below_nothing_are_none(serve: Any) -> None:
    reply = completion(GOOD) | {"usage": {"prompt_tokens": -5, "completion_tokens": "7"}}
    answerer = build_vlm(serve(lambda body, tries: reply).model, {"no_cache": "true"}, device="cpu")
    answerer.answer(pairs(1), CaptionOptions())
    assert (answerer.usage.prompt_tokens, answerer.usage.reply_tokens) == (0, 7)


def test_a_reply_that_cannot_be_kept_is_as_good(serve: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A disk that is full, another process that holds the file: the answer is paid for."""
    cache = tmp_path / "replies.sqlite"
    server = serve(lambda body, tries: completion(GOOD))
    answerer = build_vlm(server.model, {"cache": str(cache)}, device="cpu")
    with sqlite3.connect(cache) as database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    assert [type(each) for each in answerer.answer(pairs(2), CaptionOptions())] == [Answer] * 2
    assert caplog.text.count("disk is full; replies are not kept") == 1
