"""`openai:` models over real HTTP: every pair ends with an answer or an error row, whatever the server does."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import logging
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scripted_server import Server, completion
from spotchange.answering import ImagePair, load
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.asking import data_url
from spotchange.answering.vlm.build import build_vlm
from spotchange.data import Row, write_rows
from spotchange.errors import InputError, ReplyError

KEY = "sk-never-to-be-seen"
GOOD = json.dumps({"changed": True, "caption": "the red mug is gone"})


def pairs(count: int) -> list[ImagePair]:
    rng = np.random.default_rng(3)
    images = [Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)) for _ in range(2 * count)]
    return [ImagePair.of(before, after) for before, after in zip(images[::2], images[1::2], strict=True)]


def ask(server: Server, count: int = 1, **options: str) -> list[Any]:
    answerer = build_vlm(server.model, {"no_cache": "true", "retries": "3", **options}, device="cpu")
    return list(answerer.answer(pairs(count), CaptionOptions()))


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
        (completion('{"changed": true, "changed": false, "caption": "x"}'), "says 'changed' twice"),
        (completion(GOOD, finish_reason="length"), "cut off"),
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
    assert [type(each) for each in outcomes[1:]] == [Answer, Answer]


def test_an_endless_answer_is_not_read_to_its_end(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a long one nor a short one that unpacks to a long one."""
    monkeypatch.setattr("spotchange.answering.vlm.server.LONGEST_BODY", 100_000)
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


def test_requests_are_started_evenly_over_batches(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    answerer = build_vlm(server.model, {"no_cache": "true", "requests_per_minute": "600"}, device="cpu")
    began = time.monotonic()
    for one in pairs(3):
        answerer.answer([one], CaptionOptions())
    assert time.monotonic() - began >= 0.2  # two gaps of a tenth; a busy machine only adds to them


def test_a_running_loop_is_no_obstacle(serve: Any) -> None:
    """As in a notebook."""
    server = serve(lambda body, tries: completion(GOOD))

    async def notebook() -> list[Any]:
        return ask(server, 2)

    assert [type(each) for each in asyncio.run(notebook())] == [Answer, Answer]


def test_the_same_pair_is_asked_about_once(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    answerer = build_vlm(server.model, {"no_cache": "true"}, device="cpu")
    (pair,) = pairs(1)
    answers = answerer.answer([pair, pair, pair], CaptionOptions())
    assert [type(each) for each in answers] == [Answer] * 3
    assert len(server.bodies) == 1


def test_tokens_and_cost_are_counted_also_for_replies_that_cannot_be_used(serve: Any) -> None:
    server = serve(lambda body, tries: completion("nonsense"))
    options = {"no_cache": "true", "prompt_price": "2", "reply_price": "10"}
    answerer = build_vlm(server.model, options, device="cpu")
    answerer.answer(pairs(2), CaptionOptions())
    assert answerer.usage.cost == pytest.approx((1400 * 2 + 24 * 10) / 1e6)
    assert str(answerer.usage) == "2 questions asked, 0 answered before; 1,400 tokens in, 24 out; cost 0.00304"


def test_proxies_of_the_environment_see_nothing(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    elsewhere = serve(lambda body, tries: completion(GOOD))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{elsewhere.server_address[1]}")
    assert [type(each) for each in ask(server)] == [Answer]
    assert elsewhere.bodies == []


def test_a_redirect_is_not_followed(serve: Any) -> None:
    elsewhere = serve(lambda body, tries: completion(GOOD))
    there = {"location": f"http://127.0.0.1:{elsewhere.server_address[1]}/v1/chat/completions"}
    (outcome,) = ask(serve(lambda body, tries: (307, "", there)))
    assert isinstance(outcome, ReplyError)
    assert elsewhere.bodies == []


def test_where_a_photo_was_taken_is_not_sent(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    photo = Image.new("RGB", (20, 10), "red")
    exif = Image.Exif()
    exif[0x010E] = "at home"
    stream = io.BytesIO()
    photo.save(stream, "JPEG", exif=exif)
    plain = io.BytesIO()
    Image.new("RGB", (20, 10), "blue").save(plain, "JPEG")
    answerer = build_vlm(server.model, {"no_cache": "true"}, device="cpu")
    answerer.answer([ImagePair.of(stream.getvalue(), plain.getvalue())], CaptionOptions())
    first, second = (part["image_url"]["url"] for part in server.bodies[0]["messages"][-1]["content"][:2])
    assert first.startswith("data:image/png;")  # written anew
    assert second.startswith("data:image/jpeg;")  # as it was


def test_concurrency_is_bounded(serve: Any) -> None:
    both = threading.Barrier(2, timeout=120)  # every request waits until there are two
    server = serve(lambda body, tries: both.wait() * 0 or completion(GOOD))
    ask(server, 8, concurrency="2", timeout="300")
    assert server.most_at_once == 2


def test_the_key_is_sent_and_never_shown(
    serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server = serve(lambda body, tries: (401, f"bad key {KEY}", {}) if tries == 1 else completion(GOOD))
    cache = tmp_path / "replies.sqlite"
    answerer = build_vlm(server.model, {"cache": str(cache)}, device="cpu")
    (refused,) = answerer.answer(pairs(1), CaptionOptions())
    assert isinstance(refused, ReplyError)
    assert "bad key [key]" in refused.message
    (answer,) = answerer.answer(pairs(1), CaptionOptions())
    assert isinstance(answer, Answer)
    assert server.headers_seen[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    assert KEY not in json.dumps(answer.result.to_dict())
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "sent to 127.0.0.1" in caplog.text


def test_replies_are_cached_by_images_prompt_and_model(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    options = {"cache": str(tmp_path / "replies.sqlite")}
    for expected in (2, 2):
        answerer = build_vlm(server.model, options, device="cpu")
        answers = answerer.answer(pairs(2), CaptionOptions())
        assert len(server.bodies) == expected
    assert str(answerer.usage) == "0 questions asked, 2 answered before; 0 tokens in, 0 out"
    assert [type(each) for each in answers] == [Answer, Answer]
    build_vlm(server.model, options | {"prompt": "clevr-change"}, device="cpu").answer(pairs(2), CaptionOptions())
    assert len(server.bodies) == 4


def test_replies_of_one_name_under_two_paths_of_a_host_are_not_mixed(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    options = {"cache": str(tmp_path / "replies.sqlite")}
    for path in ("/v1", "/v1/", "/other/v1", "/secret-key/v1"):
        answerer = build_vlm(server.model.replace("/v1", path), options, device="cpu")
        answerer.answer(pairs(1), CaptionOptions())
        assert "secret-key" not in answerer.signature
    assert len(server.bodies) == 3  # with and without the last slash it is the same


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


def test_a_server_without_probabilities_is_said_to_have_none(serve: Any) -> None:
    server = serve(lambda body, tries: (422, "no logprobs", {}) if body.get("logprobs") else completion(GOOD))
    (answer,) = ask(server, score="true")
    assert answer.result.change_score == 1.0
    assert any("tells no probabilities" in each for each in answer.result.warnings)


def test_a_change_that_only_the_pixels_see_is_told(serve: Any) -> None:
    unseen = json.dumps({"changed": False, "caption": "nothing changed"})
    answerer = build_vlm(serve(lambda body, tries: completion(unseen)).model, {"no_cache": "true"}, device="cpu")
    plain = ImagePair.of(*(Image.new("RGB", (20, 10), color) for color in ("red", "blue")))
    (answer,) = answerer.answer([plain], CaptionOptions())
    assert isinstance(answer, Answer)
    assert not answer.result.changed
    assert any("the pixels differ" in each for each in answer.result.warnings)


def test_examples_come_from_the_train_split(serve: Any, tmp_path: Path) -> None:
    rows = []
    for name, kind, caption in (("a", "drop", "the cube is gone"), ("b", "none", "no change"), ("c", "add", "new")):
        for side, color in (("before", "red"), ("after", "blue")):
            path = tmp_path / "train" / f"{name}-{side}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (16, 12), color).save(path)
        names = {f"{side}_file_name": f"{name}-{side}.png" for side in ("before", "after")}
        rows.append(Row(id=name, captions=(caption,), change_type=kind, **names))
    write_rows(tmp_path / "train" / "metadata.jsonl", rows)

    def script(body: dict[str, Any], tries: int) -> Any:
        top = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -2.5}]
        told = completion("yes", logprobs={"content": [{"top_logprobs": top}]})
        return told if body.get("logprobs") else completion(GOOD)

    server = serve(script)
    answerer = build_vlm(
        server.model,
        {"no_cache": "true", "few_shot": str(tmp_path), "shots": "2", "hints": "true", "score": "true"},
        device="cpu",
    )
    answerer.answer(pairs(1), CaptionOptions())
    asked, scored = server.bodies
    assert [each["role"] for each in asked["messages"]] == ["system", *["user", "assistant"] * 2, "user"]
    replies = [json.loads(each["content"]) for each in asked["messages"] if each["role"] == "assistant"]
    assert replies == [
        {"changed": True, "caption": "the cube is gone"},
        {"changed": False, "caption": "no change"},
    ]
    texts = [each["content"][-1]["text"] for each in asked["messages"] if each["role"] == "user"]
    assert ["pixel comparison" in text for text in texts] == [False, False, True]  # of this pair, not of the examples
    assert [each["content"] for each in scored["messages"] if each["role"] == "assistant"] == ["yes", "no"]
    assert "2shots@" in answerer.signature


@pytest.mark.parametrize(("said", "changed"), [("the mug is gone", True), ("there is no change", False)])
def test_a_reply_may_be_the_sentence_itself_about_one_stacked_image(serve: Any, said: str, changed: bool) -> None:
    server = serve(lambda body, tries: completion(said))
    (answer,) = ask(server, prompt="blip2idc")
    assert (answer.result.caption, answer.result.changed) == (said, changed)
    (message,) = server.bodies[0]["messages"]
    (image,) = message["content"]  # neither a text nor a turn of the system
    content = base64.b64decode(image["image_url"]["url"].partition(",")[2])
    assert Image.open(io.BytesIO(content)).size == (32, 48)
    assert "response_format" not in server.bodies[0]


def test_hints_tell_what_the_pixels_show(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    ask(server, hints="true")
    told = server.bodies[0]["messages"][-1]["content"][-1]["text"]
    assert "A pixel comparison reports: " in told
    assert "(before [" in told


def test_every_difference_is_asked_for(serve: Any) -> None:
    many = {"changed": True, "caption": "two things changed", "differences": ["the mug is gone", "the lamp is on"]}
    server = serve(lambda body, tries: completion(json.dumps(many)))
    (answer,) = ask(server, differences="many")
    assert list(answer.result.differences) == many["differences"]
    assert answer.result.to_dict()["differences"] == many["differences"]


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("openai:ftp://host#m", {}, "no server address"),
        ("openai:http://127.0.0.1/v1", {}, "names no model"),
        ("openai:http://127.0.0.1:port/v1#m", {}, "no server address"),
        ("openai:http://user:secret@127.0.0.1/v1", {}, "names no model"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "mine.yaml"}, "no prompt file"),
        ("openai:http://user:secret@127.0.0.1/v1#m", {}, "key does not belong"),
        ("openai:http://127.0.0.1/v1#m", {"promt": "x"}, "did you mean 'prompt'"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "nothing"}, "no prompt"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "plain", "differences": "many"}, "asks for no list of differences"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "plain", "hints": "true"}, "no place for hints"),
        ("openai:http://127.0.0.1/v1#m", {"prompt": "plain", "score": "true"}, "no score_question"),
        ("openai:http://127.0.0.1/v1#m", {"proxy": "proxy.example"}, "'proxy.example' is no address"),
        ("openai:http://127.0.0.1/v1#m", {"proxy": "user:secret@proxy"}, "is no address"),
        ("openai:http://127.0.0.1/v1#m", {"proxy": "http://[::1"}, "is no address"),
        ("vlm:", {}, "names no model"),
    ],
)
def test_bad_settings_are_one_line(model: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        load(model, model_options=options)
    assert isinstance(caught.value, Exception)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"required": 3},
        {"required": [[]], "properties": {}},
        {"required": ["changed", "caption"]},  # nothing is described
        {"required": ["changed", "caption"], "properties": {"changed": {}, "caption": {}, "mood": {}}},
        {"required": ["caption"], "properties": {"caption": {}}},
    ],
)
def test_a_prompt_file_with_a_schema_that_no_reply_is_read_by(tmp_path: Path, schema: dict[str, Any]) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps({"name": "mine", "version": 1, "system": "", "user": "what?", "schema": schema}))
    with pytest.raises(
        InputError, match=r"mine\.v1@\w{8}: its schema must describe and require 'caption' and 'changed'"
    ):
        load("openai:http://127.0.0.1/v1#m", model_options={"prompt": str(file)})


def test_our_own_models_take_no_such_options() -> None:
    with pytest.raises(InputError, match="vision-language"):
        load("bundled", model_options={"prompt": "sentence"})
