"""METEOR without Java: its parts, a recorded fixture, and the jar itself, live."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captions import editing_requests, made, spot_the_diff
from standard_tools import jar_scores, meteor_jar, strange_captions

from spotchange.errors import InputError, MissingExtraError
from spotchange.metrics.meteor.data import MeteorData, load_meteor_data
from spotchange.metrics.meteor.metric import Meteor, corpus_statistics, meteor_scores
from spotchange.metrics.scoring import token_sentences

RECORDED = json.loads((Path(__file__).parent / "fixtures" / "standard_tools.json").read_text(encoding="utf-8"))[
    "meteor"
]
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def data() -> MeteorData:
    pytest.importorskip("pycocoevalcap", reason="the extra 'metrics' is not installed: METEOR's data is absent")
    return load_meteor_data()


@pytest.fixture(scope="module")
def meteor(data: MeteorData) -> Meteor:
    return Meteor()


def test_recorded_scores(meteor: Meteor) -> None:
    corpus, items = meteor.score(RECORDED["candidates"], RECORDED["references"])
    assert corpus == pytest.approx(RECORDED["corpus"], rel=0, abs=TOLERANCE)
    assert items == pytest.approx(RECORDED["items"], rel=0, abs=TOLERANCE)
    # Parts of the evaluation, and tokens in place of sentences, give the same items.
    some = [candidate.split(" ") for candidate in RECORDED["candidates"][20:30]]
    assert meteor.score(some, RECORDED["references"][20:30])[1] == items[20:30]


def test_known_values(meteor: Meteor) -> None:
    candidates = ["the cat sat on the mat", "car", "", "a b", "", "the car is gone"]
    references = [["the cat sat on the mat"], ["cars"], ["a b"], ["", "a b"], [""], ["cars are gone now"]]
    _, items = meteor.score(candidates, references)
    # "car" against "cars" is 0: a one-word stem adds nothing in the search, which then leaves it out.
    assert items[:5] == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert items[5] == pytest.approx(0.3004258293710028)


def test_wrong_lengths_are_refused(meteor: Meteor) -> None:
    for candidates, references in (([], []), (["a"], []), (["a"], [[]])):
        with pytest.raises(InputError):
            meteor.score(candidates, references)


def test_meanings(data: MeteorData) -> None:
    assert data.meanings("car") & data.meanings("automobile")
    assert data.meanings("cars") & data.meanings("automobile"), "a suffix rule finds the base form"
    assert data.meanings("mice") & data.meanings("mouse"), "so does the list of exceptions"
    assert not data.meanings("grass") & data.meanings("gras"), "words in ss have no base form"
    assert not data.meanings("no-such-word")


def test_corpus_is_no_mean_of_items() -> None:
    statistics = np.zeros((2, 23))
    perfect, poor = statistics
    perfect[[0, 1, 4, 5, 20, 21, 22]] = 4, 4, 4, 4, 1, 4, 4
    poor[[0, 1, 4, 5, 20, 21, 22]] = 8, 4, 2, 2, 2, 2, 2
    items = meteor_scores(statistics)
    assert items[0] == 1.0
    assert items[1] == pytest.approx(0.4 * 1 / (0.15 / 0.25 + 0.85 / 0.5))
    summed = corpus_statistics(statistics)
    assert summed[0, 20] == 2, "chunks of a perfect match do not count"
    precision, recall = 6 / 12, 6 / 8
    expected = (1 - 0.6 * (2 / 6) ** 0.2) / (0.15 / precision + 0.85 / recall)
    assert meteor_scores(summed)[0] == pytest.approx(expected)


@pytest.mark.parametrize("missing", ["pycocoevalcap", "snowballstemmer"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    with pytest.raises(MissingExtraError, match="metrics"):
        Meteor()


@pytest.fixture(scope="module")
def jar(java: str) -> Iterator[Any]:
    pytest.importorskip("pycocoevalcap", reason="the extra 'metrics' is not installed")
    with meteor_jar() as running:
        yield running


def assert_same_as_jar(meteor: Meteor, jar: Any, candidates: list[str], references: list[list[str]]) -> None:
    corpus, items = meteor.score(candidates, references)
    expected_corpus, expected = jar_scores(jar, candidates, references)
    assert corpus == pytest.approx(expected_corpus, rel=0, abs=TOLERANCE)
    difference = np.abs(np.array(items) - expected)
    worst = int(difference.argmax())
    assert difference[worst] <= TOLERANCE, (candidates[worst], references[worst])


@pytest.mark.java
@pytest.mark.slow
def test_made_captions_live(meteor: Meteor, jar: Any) -> None:
    candidates, references = made(1500, 5, seed=3)
    assert_same_as_jar(meteor, jar, token_sentences(candidates), [token_sentences(one) for one in references])


@pytest.mark.java
@pytest.mark.slow
def test_real_captions_live(meteor: Meteor, jar: Any, shared: Path) -> None:
    for candidates, references in (spot_the_diff(shared, "test"), editing_requests(shared, "test")):
        assert_same_as_jar(meteor, jar, token_sentences(candidates), [token_sentences(one) for one in references])


@pytest.mark.java
@pytest.mark.slow
def test_strange_captions_live(meteor: Meteor, jar: Any) -> None:
    sentences = token_sentences(strange_captions(1200, seed=9))
    longer = [" ".join(pair) for pair in pairwise(sentences)]
    assert_same_as_jar(meteor, jar, sentences[:-2], [[longer[n], longer[n + 1]] for n in range(len(sentences) - 2)])
