from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from spotchange.errors import InputError
from spotchange.evaluation.published_retrieval import published_retrieval
from spotchange.evaluation.retrieval import retrieval_scores


def test_ranks_by_hand() -> None:
    # Pair 0 has texts 0 and 1, pair 1 has text 2, pair 2 has text 3.
    similarity = np.array([[0.1, 0.9, 0.5, 0.0], [0.8, 0.0, 0.7, 0.9], [0.3, 0.2, 0.1, 0.0]])
    scores = retrieval_scores(similarity, [[0, 1], [2], [3]])
    # Pair to text: 0.9 is first; 0.7 stands behind 0.8 and 0.9; 0.0 behind three.
    assert scores["pair to text"]["R@1"] == pytest.approx(1 / 3)
    assert scores["pair to text"]["median rank"] == 3
    assert scores["pair to text"]["mean rank"] == pytest.approx((1 + 3 + 4) / 3)
    # Text to pair: text 0 ranks pair 0 third, text 1 first, text 2 first; text 3 ties with pair 0 behind pair 1.
    assert scores["text to pair"]["mean rank"] == pytest.approx((3 + 1 + 1 + 2.5) / 4)
    assert scores["text to pair"]["R@1"] == pytest.approx(2 / 4)


def test_a_shared_caption_is_right_for_every_pair_that_has_it() -> None:
    similarity = np.array([[0.2, 0.9], [0.8, 0.1]])
    scores = retrieval_scores(similarity, [[0, 1], [0]])
    assert scores["pair to text"]["R@1"] == 1
    assert scores["text to pair"]["R@1"] == 1


def test_a_model_that_tells_nothing_apart_gets_the_middle_rank() -> None:
    many = 101
    scores = retrieval_scores(np.zeros((many, many)), [[number] for number in range(many)])
    assert scores["pair to text"]["mean rank"] == scores["text to pair"]["median rank"] == 51
    assert scores["pair to text"]["R@50"] == 0


def test_perfect_and_random_similarities() -> None:
    random = np.random.default_rng(0)
    captions = [[3 * number, 3 * number + 1, 3 * number + 2] for number in range(80)]
    noise = random.normal(size=(80, 240))
    perfect = noise.copy()
    for pair, columns in enumerate(captions):
        perfect[pair, columns] += 100
    assert retrieval_scores(perfect, captions)["text to pair"]["mean rank"] == 1
    # By chance the best of 3 right among 240 ranks about (240 + 1) / 4; a caption finds its pair at about 40.5.
    by_chance = retrieval_scores(noise, captions)
    assert by_chance["pair to text"]["mean rank"] == pytest.approx(60, abs=15)
    assert by_chance["text to pair"]["mean rank"] == pytest.approx(40.5, abs=6)


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match="2 rows of similarities against 1 pairs"):
        retrieval_scores(np.zeros((2, 2)), [[0]])


@pytest.mark.parametrize("score", [retrieval_scores, published_retrieval])
def test_a_model_that_diverged_is_not_the_best(score: Callable[..., object]) -> None:
    """Nothing is larger than nan, so that every rank would be the first."""
    with pytest.raises(InputError, match="not numbers"):
        score(np.full((2, 2), np.nan), [[0], [1]])
