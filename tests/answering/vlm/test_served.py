"""`openai:` models over real HTTP: what they are asked, and what becomes of their replies."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import GOOD, ask, pairs
from PIL import Image

from scripted_server import completion
from spotchange.answering import ImagePair
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.data import Row, write_rows
from spotchange.errors import ReplyError


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


def test_what_is_ignored_is_not_shown(serve: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    before, after = Image.new("RGB", (40, 30), "red"), Image.new("RGB", (40, 30), "red")
    after.paste("blue", (0, 0, 10, 10))
    answerer = build_vlm(server.model, {"no_cache": "true"}, device="cpu")
    options = CaptionOptions(ignore=[(0, 0, 10, 10)])
    (answer,) = answerer.answer([ImagePair.of(before, after)], options)
    assert isinstance(answer, Answer)
    assert not answer.result.changed
    assert server.bodies == []  # nothing else differs
    after.paste("green", (30, 20, 40, 30))
    (answer,) = answerer.answer([ImagePair.of(before, after)], options)
    assert isinstance(answer, Answer)
    assert answer.result.changed
    parts = server.bodies[0]["messages"][-1]["content"]
    sent = [Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2]))) for part in parts[:2]]
    assert [image.getpixel((5, 5)) for image in sent] == [(255, 0, 0)] * 2
    assert sent[1].getpixel((35, 25)) != (255, 0, 0)
    assert answer.after.getpixel((5, 5)) == (0, 0, 255)  # people see what was given


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
    assert str(answerer.usage) == (
        "2 questions asked, 0 answered before; 2 unusable; 1,400 tokens in, 24 out; cost 0.00304"
    )


def test_concurrency_is_bounded(serve: Any) -> None:
    both = threading.Barrier(2, timeout=120)  # every request waits until there are two
    server = serve(lambda body, tries: both.wait() * 0 or completion(GOOD))
    ask(server, 8, concurrency="2", timeout="300")
    assert server.most_at_once == 2


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


def test_an_unusable_reply_is_not_cached(serve: Any, tmp_path: Path) -> None:
    server = serve(lambda body, tries: completion("no JSON" if tries == 1 else GOOD))
    answerer = build_vlm(server.model, {"cache": str(tmp_path / "replies.sqlite")}, device="cpu")
    assert isinstance(answerer.answer(pairs(1), CaptionOptions())[0], ReplyError)
    assert isinstance(answerer.answer(pairs(1), CaptionOptions())[0], Answer)


@pytest.mark.parametrize("row", ["{", "{}", "[1]", '{"text": 3}', '{"text": "x", "prompt_tokens": null}', b"\xff", 3])
def test_a_damaged_entry_is_asked_for_again(serve: Any, tmp_path: Path, row: Any) -> None:
    server = serve(lambda body, tries: completion(GOOD))
    answerer = build_vlm(server.model, {"cache": str(tmp_path / "replies.sqlite")}, device="cpu")
    answerer.answer(pairs(1), CaptionOptions())
    with sqlite3.connect(tmp_path / "replies.sqlite") as database:
        database.execute("UPDATE replies SET reply = ?", (row,))
    assert isinstance(answerer.answer(pairs(1), CaptionOptions())[0], Answer)
    assert len(server.bodies) == 2


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


@pytest.mark.parametrize("thoughts", ["", "<think>It was red.</think>\n", "It was red.\n</think>\n\n"])
@pytest.mark.parametrize(("prompt", "reply"), [("sentence", GOOD), ("plain", "the red mug is gone")])
def test_thoughts_are_no_part_of_a_reply(serve: Any, prompt: str, thoughts: str, reply: str) -> None:
    (answer,) = ask(serve(lambda body, tries: completion(thoughts + reply)), prompt=prompt)
    assert answer.result.caption == "the red mug is gone"


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("sentence", [{"type": "text", "text": GOOD}]),
        ("sentence", [{"type": "text", "text": GOOD[:9]}, {"type": "text", "text": GOOD[9:]}]),
        ("plain", [{"type": "thinking", "thinking": "It was red."}, {"type": "text", "text": "the red mug is gone"}]),
        ("plain", [{"type": "output_text", "text": "the red mug is gone", "annotations": []}]),
    ],
)
def test_a_reply_may_come_in_parts(serve: Any, prompt: str, parts: Any) -> None:
    (answer,) = ask(serve(lambda body, tries: completion(parts)), prompt=prompt)
    assert (answer.result.caption, answer.result.changed) == ("the red mug is gone", True)


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
    many["differences"] *= 51  # a model that does not stop has not answered
    (refused,) = ask(server, differences="many")
    assert "no list of sentences" in refused.message


def test_a_servers_client_loads_no_torch(serve: Any) -> None:
    server = serve(lambda body, tries: completion("the mug is gone"))
    program = f"""if True:
        import sys
        import spotchange
        from PIL import Image
        pair = [Image.new("RGB", (20, 10), color) for color in ("red", "blue")]
        for prompt in ("plain", "blip2idc"):
            options = {{"no_cache": True, "prompt": prompt}}
            assert spotchange.load({server.model!r}, model_options=options).caption(*pair).caption == "the mug is gone"
        assert not {{"torch", "transformers"}} & sys.modules.keys()
    """
    subprocess.run([sys.executable, "-c", program], check=True)
