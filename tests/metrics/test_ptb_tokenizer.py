"""The caption tokenizer against the Stanford PTB tokenizer: known oddities, a recorded fixture, and live."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from captions import editing_requests, made, spot_the_diff
from hypothesis import given
from hypothesis import strategies as st
from standard_tools import ptb_sentences, strange_captions

from spotchange.metrics.ptb.tokenizer import PUNCTUATION, tokenize, tokenize_all

RECORDED = json.loads((Path(__file__).parent / "fixtures" / "standard_tools.json").read_text(encoding="utf-8"))
LINE_ENDS = ["\r", "\n", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cube moved.", "the cube moved"),
        ("Don't, can't; cannot gonna", "do n't ca n't can not gon na"),
        ("it's the dogs' o'clock", "it 's the dogs o'clock"),
        ("a left-hand, side-by-side well-known view", "a left-hand side-by-side well-known view"),
        ("etc. and u.s. but end.", "etc. and u.s. but end"),
        ("room b. The car", "room b the car"),
        ("(left) [x] {y}", "-lrb- left -rrb- -lsb- x -rsb- -lcb- y -rcb-"),
        ("gone!! why?? what?! yes!", "gone !! why ?? what ?! yes"),
        ("what?no!yes", "what?no!yes"),
        ("<unk> is here", "<unk> is here"),
        ("£5 €5 ½ ¢", "# 5 $ 5 1/2 cents"),
        ("nice 😀 cube", "nice cube"),
        ("1 1/2 cups", "1\xa01/2 cups"),
        ("... -- - “quoted” ‘so’", "quoted so"),
        ("no. 5 is no.", "no. 5 is no"),
        ("", ""),
        (" \t ", ""),
    ],
)
def test_oddities(text: str, tokens: str) -> None:
    assert " ".join(tokenize(text)) == tokens


def test_recorded_tokens() -> None:
    for text, sentence in RECORDED["tokens"]:
        assert " ".join(tokenize(text)) == sentence, text


@pytest.mark.parametrize("end", LINE_ENDS)
def test_line_ends_are_spaces_and_shift_nothing(end: str) -> None:
    texts = [f"the red{end}cube moved{end}", "second", f"{end}third"]
    assert tokenize_all(texts) == [["the", "red", "cube", "moved"], ["second"], ["third"]]


@given(st.text(max_size=60))
def test_any_text_gives_clean_tokens(text: str) -> None:
    for token in tokenize(text):
        assert token
        assert token not in PUNCTUATION
        assert not token.isspace()
        assert not set(token) & set(" \t\n\r\x0b\x0c\x85\u2028\u2029")


@given(st.lists(st.text(max_size=30), max_size=5))
def test_captions_do_not_touch_each_other(texts: list[str]) -> None:
    assert tokenize_all(texts) == [tokenize(text) for text in texts]


def test_the_cache_is_not_handed_out() -> None:
    tokenize("a cube").append("spoiled")
    tokenize_all(["a cube"])[0].append("spoiled")
    assert tokenize("a cube") == ["a", "cube"]


def assert_same_as_stanford(texts: list[str]) -> None:
    pytest.importorskip("pycocoevalcap", reason="the extra 'metrics' is not installed")
    texts = list(dict.fromkeys(texts))
    for text, expected in zip(texts, ptb_sentences(texts), strict=True):
        assert " ".join(tokenize(text)) == expected, text


@pytest.mark.java
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("seed", range(2))
def test_strange_captions_live(seed: int) -> None:
    assert_same_as_stanford(strange_captions(6000, seed))


@pytest.mark.java
@pytest.mark.usefixtures("java")
def test_made_captions_live() -> None:
    candidates, references = made(3000, 3, seed=1)
    assert_same_as_stanford([*candidates, *(text for one in references for text in one)])


@pytest.mark.java
@pytest.mark.usefixtures("java")
def test_real_captions_live(shared: Path) -> None:
    texts = [text for split in ("train", "val", "test") for one in spot_the_diff(shared, split)[1] for text in one]
    texts += [
        text for split in ("train", "valid", "test") for one in editing_requests(shared, split)[1] for text in one
    ]
    for path in sorted((shared / "data" / "levir-cc-trees").glob("*/metadata.jsonl")):
        texts += [
            text for line in path.read_text(encoding="utf-8").splitlines() for text in json.loads(line)["captions"]
        ]
    assert len(texts) > 30_000
    assert_same_as_stanford(texts)
