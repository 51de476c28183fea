"""Word choice alone, on a made-up language, and on real models against decoding without caches."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from spotchange.errors import InputError
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.decoding import search as decoding
from spotchange.models.decoding.search import SpecialIds
from spotchange.models.decoding.torch_arrays import TorchArrays
from spotchange.models.interface import DecodingOptions

SPECIAL = SpecialIds(begin=1, end=2, pad=0)
VOCABULARY = 5
CPU = TorchArrays(torch.device("cpu"))


class Language:
    """The next word depends on all words before, by a random table: only correct histories give correct scores."""

    def __init__(self, pairs: int, rows_per_pair: int, words: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.pair = torch.arange(pairs).repeat_interleave(rows_per_pair)
        self.table = 2 * torch.randn(pairs, words, VOCABULARY**2, VOCABULARY, generator=generator)
        self.history = torch.zeros(pairs * rows_per_pair, dtype=torch.long)
        self.position = 0

    def step(self, ids: Tensor) -> Tensor:
        self.history = (self.history * 3 + ids) % VOCABULARY**2
        scores = self.table[self.pair, self.position, self.history]
        self.position += 1
        return scores

    def select(self, rows: Tensor) -> None:
        assert torch.equal(self.pair[rows], self.pair)
        self.history = self.history[rows]


def best_by_trying_all(pair: int, pairs: int, words: int, penalty: float) -> tuple[float, list[int]]:
    best: tuple[float, list[int]] = (float("-inf"), [])
    for sentence in itertools.product(range(VOCABULARY), repeat=words):
        language = Language(pairs, 1, words)
        total, said, previous = 0.0, [], SPECIAL.begin
        for word in sentence:
            scores = language.step(torch.full((pairs,), previous)).log_softmax(dim=-1)
            total += float(scores[pair, word])
            said.append(word)
            previous = word
            if word == SPECIAL.end:
                break
        best = max(best, (total / len(said) ** penalty, said))
    return best


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_wide_beam_finds_the_best_sentence(penalty: float) -> None:
    words, pairs, beams = 3, 2, 100
    options = DecodingOptions(method="beam", beams=beams, candidates=3, max_words=words, length_penalty=penalty)
    generated = decoding.generate(Language(pairs, beams, words), pairs, SPECIAL, options, CPU)
    for pair in range(pairs):
        score, sentence = best_by_trying_all(pair, pairs, words, penalty)
        length = int(generated.lengths[pair, 0])
        said = [word for word in sentence if word != SPECIAL.end]
        assert length == len(sentence)
        assert generated.ids[pair, 0, : len(said)].tolist() == said
        assert generated.log_probabilities[pair, 0].sum() / length**penalty == pytest.approx(score, abs=1e-5)
    scores = generated.log_probabilities.sum(-1) / generated.lengths**penalty
    assert (scores.diff(dim=1) <= 1e-6).all()  # best first


def test_one_beam_is_greedy() -> None:
    greedy = decoding.generate(Language(6, 1, 7), 6, SPECIAL, DecodingOptions(max_words=7), CPU)
    beam = decoding.generate(Language(6, 1, 7), 6, SPECIAL, DecodingOptions(method="beam", max_words=7), CPU)
    torch.testing.assert_close(greedy.ids, beam.ids)
    torch.testing.assert_close(greedy.log_probabilities, beam.log_probabilities)
    torch.testing.assert_close(greedy.lengths, beam.lengths)


def test_padding_lengths_and_limits() -> None:
    options = DecodingOptions(max_words=7, min_words=3)
    generated = decoding.generate(Language(50, 1, 7), 50, SPECIAL, options, CPU)
    assert generated.lengths.min() > 3
    assert generated.lengths.max() == 7
    for ids, chances, length in zip(
        generated.ids[:, 0], generated.log_probabilities[:, 0], generated.lengths[:, 0], strict=True
    ):
        assert SPECIAL.end not in ids.tolist()
        assert (ids[length:] == SPECIAL.pad).all()
        assert (chances[:length] < 0).all()
        assert (chances[length:] == 0).all()


def test_sampling_follows_seed_and_top_p() -> None:
    def sample(seed: int, top_p: float) -> Tensor:
        options = DecodingOptions(method="sample", candidates=4, max_words=6, seed=seed, top_p=top_p)
        return decoding.generate(Language(8, 4, 6), 8, SPECIAL, options, CPU).ids

    assert torch.equal(sample(1, 1.0), sample(1, 1.0))
    assert not torch.equal(sample(1, 1.0), sample(2, 1.0))
    greedy = decoding.generate(Language(8, 1, 6), 8, SPECIAL, DecodingOptions(max_words=6), CPU).ids
    assert torch.equal(sample(1, 1e-6), greedy.expand(-1, 4, -1))  # only the likeliest word is left


def test_sampling_frequencies_are_the_models() -> None:
    class Fixed:
        def step(self, ids: Tensor) -> Tensor:
            return torch.tensor([[0.1, 0.2, 0.3, 0.25, 0.15]]).log().expand(len(ids), -1)

        def select(self, rows: Tensor) -> None:
            raise AssertionError("sampling never reorders")

    options = DecodingOptions(method="sample", candidates=20_000, max_words=1, length_penalty=0.0)
    generated = decoding.generate(Fixed(), 1, SpecialIds(begin=0, end=4, pad=4), options, CPU)
    counts = torch.bincount(generated.ids.flatten(), minlength=5) / 20_000
    torch.testing.assert_close(counts, torch.tensor([0.1, 0.2, 0.3, 0.25, 0.15]), atol=0.015, rtol=0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (DecodingOptions(method="best"), "unknown decoding method"),
        (DecodingOptions(max_words=0), "max_words"),
        (DecodingOptions(candidates=2), "candidates"),
        (DecodingOptions(method="beam", beams=2, candidates=3), "candidates"),
        (DecodingOptions(method="sample", temperature=0), "temperature"),
        (DecodingOptions(max_words=4, min_words=5), "min_words"),
    ],
)
def test_impossible_options_are_refused(options: DecodingOptions, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        decoding.checked(options, context=32)


def test_sentences_end_where_the_models_positions_do() -> None:
    assert decoding.checked(DecodingOptions(max_words=99), context=24).max_words == 24


def greedy_without_caches(model: Clip4idc, before: Tensor, after: Tensor, words: int) -> list[list[int]]:
    """The slow way: all words again for every new one."""
    state = model.encode(before, after)
    sentences = torch.full((len(before), 1), model.special.begin)
    for _ in range(words):
        following = model.caption_logits(state, sentences)[:, -1].argmax(dim=-1)
        sentences = torch.cat([sentences, following[:, None]], dim=1)
    said = []
    for row in sentences[:, 1:].tolist():
        said.append(row[: row.index(model.special.end)] if model.special.end in row else row)
    return said


@pytest.mark.parametrize("architecture", ["clip4idc", "clip-ft", "ft1", "ft2"])
@torch.no_grad()
def test_cached_words_equal_uncached_and_batched_equal_single(
    architecture: str, make_model: Callable, images: Callable
) -> None:
    model = make_model(architecture)
    before, after = images(model, 12)
    options = DecodingOptions(max_words=14)
    batched = model.generate(model.encode(before, after), options)
    slow = greedy_without_caches(model, before, after, 14)
    assert len({tuple(each) for each in slow}) > 3  # the images matter
    for row, expected in enumerate(slow):
        assert batched.ids[row, 0, : len(expected)].tolist() == expected
        single = model.generate(model.encode(before[row : row + 1], after[row : row + 1]), options)
        assert torch.equal(single.ids[0], batched.ids[row])
        torch.testing.assert_close(single.log_probabilities[0], batched.log_probabilities[row], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_beam_scores_are_those_of_teacher_forcing(make_model: Callable, images: Callable) -> None:
    model = make_model()
    before, after = images(model, 5)
    state = model.encode(before, after)
    found = model.generate(state, DecodingOptions(method="beam", beams=4, candidates=4, max_words=9))
    greedy = model.generate(state, DecodingOptions(max_words=9))
    for pair, candidate in itertools.product(range(5), range(4)):
        length = int(found.lengths[pair, candidate])
        said = found.ids[pair, candidate, :length].clone()
        if length < 9 or float(found.log_probabilities[pair, candidate, -1]) == 0:
            said[-1] = model.special.end
        ids = torch.cat([torch.tensor([model.special.begin]), said[:-1]])[None]
        one = model.encode(before[pair : pair + 1], after[pair : pair + 1])
        chances = model.caption_logits(one, ids)[0].log_softmax(dim=-1)
        words = chances.gather(1, said[:, None])[:, 0]
        if length == 9:  # the last word may be the end or not: both are finished sentences
            words[-1] = found.log_probabilities[pair, candidate, 8]
        torch.testing.assert_close(found.log_probabilities[pair, candidate, :length], words, atol=1e-4, rtol=1e-4)
    best = found.log_probabilities[:, 0].sum(-1) / found.lengths[:, 0]
    assert (best >= greedy.log_probabilities[:, 0].sum(-1) / greedy.lengths[:, 0] - 1e-5).float().mean() >= 0.8
