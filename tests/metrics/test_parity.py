"""BLEU, ROUGE-L and CIDEr-D against pycocoevalcap itself, run live; it needs no Java once the tokens are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from captions import editing_requests, made, spot_the_diff

from spotchange.metrics import Scorer
from spotchange.metrics.scoring import token_sentences

pytest.importorskip("pycocoevalcap", reason="the extra 'metrics' is not installed")

Captions = tuple[list[str], list[list[str]]]
TOLERANCE = 1e-9


def assert_same_as_pycocoevalcap(candidates: list[str], references: list[list[str]]) -> None:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    result = {str(number): token_sentences([text]) for number, text in enumerate(candidates)}
    truth = {str(number): token_sentences(texts) for number, texts in enumerate(references)}
    expected = {}
    corpus, items = Bleu(4).compute_score(truth, result, verbose=0)
    for order in range(4):
        expected[f"BLEU-{order + 1}"] = corpus[order], items[order]
    expected["ROUGE-L"] = Rouge().compute_score(truth, result)
    expected["CIDEr-D"] = Cider().compute_score(truth, result)

    scorer = Scorer({str(number): texts for number, texts in enumerate(references)}, meteor=False)
    found = scorer.score({str(number): text for number, text in enumerate(candidates)})
    assert list(found.corpus) == list(expected)
    for name, (expected_corpus, expected_items) in expected.items():
        assert found.corpus[name] == pytest.approx(expected_corpus, rel=0, abs=TOLERANCE), name
        difference = np.abs([row[name] for row in found.items.values()] - np.asarray(expected_items))
        worst = int(difference.argmax())
        assert difference[worst] <= TOLERANCE, (name, candidates[worst], references[worst])


@pytest.mark.parametrize("seed", range(3))
def test_made_captions(seed: int) -> None:
    assert_same_as_pycocoevalcap(*made(700, 7, seed))


@pytest.mark.parametrize(
    "read", [lambda shared: spot_the_diff(shared, "val"), lambda shared: editing_requests(shared, "valid")]
)
def test_real_captions(shared: Path, read: Callable[[Path], Captions]) -> None:
    assert_same_as_pycocoevalcap(*read(shared))


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test"])
def test_many_real_captions(shared: Path, split: str) -> None:
    assert_same_as_pycocoevalcap(*spot_the_diff(shared, split))
    assert_same_as_pycocoevalcap(*editing_requests(shared, split))


@pytest.mark.parametrize(
    ("candidates", "references"),
    [
        (["the cube is gone"], [["the cube is gone"]]),  # one item: every n-gram is in every document
        (["", "a b", "x"], [["", "a"], ["", ""], ["x", "y z"]]),  # empty sentences on both sides
        (["a a a a a", "b"], [["a a", "a"], ["b b b b b b"]]),  # clipping
        (["one", "one two three four five six"], [["one two three"], ["one two", "one two three four five six seven"]]),
        (["cut 1\xa01/2 cups"] * 2, [["cut 1\xa01/2 cups now"], ["1 1/2 cups"]]),  # a token that holds white space
        (["same words here now"] * 3, [["same words here now"]] * 3),  # all weights zero
    ],
)
def test_corners(candidates: list[str], references: list[list[str]]) -> None:
    assert_same_as_pycocoevalcap(candidates, references)


def test_long_sentences() -> None:
    # Longer than a machine word, so that no metric may rely on 64 bits.
    candidates, references = made(40, 3, seed=5)
    long = [" and ".join(candidates[place : place + 12]) for place in range(28)]
    assert_same_as_pycocoevalcap(long, [[" then ".join(texts * 9)] for texts in references[:28]])


def test_large_vocabulary() -> None:
    # Past 65,535 distinct words n-grams no longer pack into one machine word.
    words = [f"w{number}" for number in range(70_000)]
    references = [[" ".join(words[start : start + 70]), "w1 w2 w3"] for start in range(0, 70_000, 70)]
    candidates = [" ".join(texts[0].split()[3:30]) for texts in references]
    assert_same_as_pycocoevalcap(candidates, references)
