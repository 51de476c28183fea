"""The search is one implementation: on numpy it must find what it finds on torch, penalties included."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from spotchange.models.decoding import search
from spotchange.models.decoding.arrays import NumpyArrays
from spotchange.models.decoding.torch_arrays import TorchArrays
from spotchange.models.interface import DecodingOptions

SPECIAL = search.SpecialIds(begin=1, end=2, pad=0)
VOCABULARY = 7


class NumpyLanguage:
    """The next word depends on all words before, by a random table."""

    def __init__(self, pairs: int, rows_per_pair: int, words: int) -> None:
        generator = np.random.default_rng(3)
        self.pair = np.arange(pairs).repeat(rows_per_pair)
        self.table = generator.normal(0, 2, (pairs, words, VOCABULARY**2, VOCABULARY)).astype(np.float32)
        self.history = np.zeros(pairs * rows_per_pair, np.int64)
        self.position = 0

    def step(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        self.history = (self.history * 3 + ids) % VOCABULARY**2
        scores: npt.NDArray[np.float32] = self.table[self.pair, self.position, self.history]
        self.position += 1
        return scores

    def select(self, rows: npt.NDArray[np.int64]) -> None:
        self.history = self.history[rows]


class TorchLanguage(NumpyLanguage):
    """The same language for a search on torch."""

    def step(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        return torch.from_numpy(super().step(ids.numpy()))

    def select(self, rows: Tensor) -> None:  # type: ignore[override]
        super().select(rows.numpy())


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(max_words=9),
        DecodingOptions(max_words=9, min_words=4),
        DecodingOptions(max_words=9, word_penalties=((3, 1.5), (5, -0.5))),
        DecodingOptions(method="beam", beams=3, candidates=3, max_words=9),
        DecodingOptions(method="beam", beams=4, candidates=2, max_words=6, min_words=3, length_penalty=0.5),
        DecodingOptions(method="beam", beams=3, candidates=3, max_words=9, word_penalties=((3, 2.0), (4, 0.7))),
    ],
)
def test_numpy_and_torch_find_the_same(options: DecodingOptions) -> None:
    pairs, rows = 20, search.rows_per_pair(options)
    ours = search.generate(NumpyLanguage(pairs, rows, 9), pairs, SPECIAL, options, NumpyArrays())
    theirs = search.generate(TorchLanguage(pairs, rows, 9), pairs, SPECIAL, options, TorchArrays(torch.device("cpu")))
    np.testing.assert_array_equal(ours.ids, theirs.ids.numpy())
    np.testing.assert_array_equal(ours.lengths, theirs.lengths.numpy())
    np.testing.assert_allclose(ours.log_probabilities, theirs.log_probabilities.numpy(), atol=1e-5)


class OneWord:
    """Words 3 and 4 are nearly as likely; then the end."""

    def __init__(self) -> None:
        self.first = True

    def step(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        scores = np.full((len(ids), VOCABULARY), -9.0, np.float32)
        if self.first:
            scores[:, 3], scores[:, 4] = 1.0, 0.5
        else:
            scores[:, SPECIAL.end] = 5.0
        self.first = False
        return scores

    def select(self, rows: npt.NDArray[np.int64]) -> None:
        pass


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_penalty_makes_a_word_less_likely_to_be_chosen_and_reports_its_own_probability(method: str) -> None:
    def first_word(*penalties: tuple[int, float]) -> tuple[int, float]:
        options = DecodingOptions(method=method, beams=2 if method == "beam" else 1, word_penalties=penalties)
        found = search.generate(OneWord(), 1, SPECIAL, options, NumpyArrays())
        return int(found.ids[0, 0, 0]), float(found.log_probabilities[0, 0, 0])

    assert first_word()[0] == 3
    word, log_probability = first_word((3, 1.0))
    assert word == 4
    # The model's own probability of word 4, whatever was taken off the other.
    assert log_probability == pytest.approx(0.5 - np.log(np.exp(1.0) + np.exp(0.5) + 5 * np.exp(-9.0)), abs=1e-4)
    assert first_word((3, -1.0), (4, 0.0))[0] == 3
    assert first_word((4, -1.0))[0] == 4


def test_sampling_on_numpy_follows_probabilities_seed_and_top_p() -> None:
    arrays = NumpyArrays()
    ranks = np.log(np.tile(np.array([[0.1, 0.2, 0.3, 0.25, 0.15]], np.float32), (20_000, 1)))
    drawn = arrays.sample(ranks, temperature=1.0, top_p=1.0, seed=1, position=0)
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), [0.1, 0.2, 0.3, 0.25, 0.15], atol=0.015)
    again = arrays.sample(ranks, temperature=1.0, top_p=1.0, seed=1, position=0)
    np.testing.assert_array_equal(drawn, again)
    assert set(arrays.sample(ranks, temperature=1.0, top_p=0.5, seed=2, position=0)) == {2, 3}


def test_of_equal_values_the_first_are_the_top() -> None:
    values = np.array([[1.0, 2.0, 2.0, 0.0, 2.0]], np.float32)
    best, places = NumpyArrays().top(values, 2)
    assert best.tolist() == [[2.0, 2.0]]
    assert places.tolist() == [[1, 2]]
