"""Our CLIP tokenizer against open_clip's own, on captions and on odd strings."""

from __future__ import annotations

import importlib.util
import random
import string
from pathlib import Path
from types import ModuleType

import pytest

from spotchange.models.build import vocabulary_of
from spotchange.models.weights.published.clip_tokenizer import clip_tokenizer

ODD = [
    "the Large RED cube's colour has changed!",
    "it isn't there; they've moved, we'll see, I'd say you're right",
    "12 + 34 = 46, 3.14159, 1st 2nd",
    "tabs\tand\nnew   lines",
    "naïve café façade Ångström straße",
    "日本語 тест ελληνικά العربية",
    "emoji 🙂 and symbols ©®™ — dashes…",
    "under_scores and-hyphens @#$%^&*()[]{}",
    "",
    "a",
]


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    # Only the tokenizer's file: the package itself wants torchvision.
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        pytest.skip("open_clip_torch is not installed")
    spec = importlib.util.spec_from_file_location("open_clip_tokenizer", Path(package.origin).with_name("tokenizer.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_same_ids_as_open_clip(theirs: ModuleType) -> None:
    draw = random.Random(1)
    words = "the big red cube moved behind tiny rubber zyx qwertyuiop antidisestablishmentarianism".split()  # noqa: SIM905
    sentences = [" ".join(draw.choices(words, k=draw.randint(1, 12))) for _ in range(300)]
    letters = string.ascii_letters + string.digits + " .,'!?-_äéßñ"
    # open_clip also repairs and unescapes text, which no tokenizer.json can; "&" and repaired marks are left out.
    noise = ["".join(draw.choices(letters, k=draw.randint(0, 40))) for _ in range(1000)]
    original, ours = theirs.SimpleTokenizer(), clip_tokenizer()
    for text in ODD + sentences + noise:
        assert ours.encode(text).ids == [49406, *original.encode(text), 49407], text


def test_facts_and_way_back() -> None:
    tokenizer = clip_tokenizer()
    facts = vocabulary_of(tokenizer)
    assert (facts.size, facts.begin, facts.end, facts.pad) == (49408, 49406, 49407, 0)
    for text in ("the small red ball was moved", "naïve café, 12 cubes!"):
        decoded = tokenizer.decode(tokenizer.encode(text).ids)
        assert decoded.replace(" ", "") == text.replace(" ", "")
    assert (
        tokenizer.decode(tokenizer.encode("the small red ball was moved").ids).strip() == "the small red ball was moved"
    )
