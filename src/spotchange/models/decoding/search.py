"""Choosing words: greedy, beam search, sampling. Knows no model and no runtime: only something that steps.

Scores come as (rows, vocabulary), one row a sentence, a pair's sentences next to each other. They may be torch tensors
or numpy arrays: `Arrays` says where the sentences are kept, and everything stays there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from spotchange.errors import InputError
from spotchange.models.decoding.arrays import NEVER, Array, Arrays
from spotchange.models.interface import DecodingOptions, Generated


class Steps(Protocol):
    """A batch of sentences in the making."""

    def step(self, ids: Array) -> Array:
        """Feed one word a row (rows,); scores of the next (rows, vocabulary)."""
        ...

    def select(self, rows: Array) -> None:
        """Let row i go on from the history of row `rows[i]`."""
        ...


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """Ids that frame a sentence."""

    begin: int
    end: int
    pad: int


def rows_per_pair(options: DecodingOptions) -> int:
    """Sentences a pair that a method keeps going at once."""
    return {"greedy": 1, "beam": options.beams, "sample": options.candidates}[options.method]


def checked(options: DecodingOptions, context: int) -> DecodingOptions:
    """Options a model with `context` word positions can follow; what makes no sense is refused before any work."""
    if options.method not in ("greedy", "beam", "sample"):
        raise InputError(f"unknown decoding method '{options.method}': choose greedy, beam or sample")
    options = replace(options, max_words=min(options.max_words, context))
    if options.max_words < 1:
        raise InputError(f"max_words must be at least 1, not {options.max_words}")
    if not 0 <= options.min_words <= options.max_words:
        raise InputError(f"min_words must be between 0 and max_words, not {options.min_words}")
    if options.candidates < 1 or options.beams < 1:
        raise InputError("beams and candidates must be at least 1")
    most = {"greedy": 1, "beam": options.beams, "sample": options.candidates}[options.method]
    if options.candidates > most:
        raise InputError(f"{options.method} decoding gives at most {most} candidates here, not {options.candidates}")
    if options.temperature <= 0 or not 0 < options.top_p <= 1:
        raise InputError("temperature must be above 0 and top_p in (0, 1]")
    return options


def generate(steps: Steps, pairs: int, special: SpecialIds, options: DecodingOptions, arrays: Arrays) -> Generated:
    """Sentences for `pairs` pairs, best candidate first."""
    if options.method == "beam":
        return _beam_search(steps, pairs, special, options, arrays)
    return _one_word_at_a_time(steps, pairs, special, options, arrays)


def _one_word_at_a_time(
    steps: Steps, pairs: int, special: SpecialIds, options: DecodingOptions, arrays: Arrays
) -> Generated:
    """Greedy and sampling: rows never meet each other."""
    rows = pairs * rows_per_pair(options)
    ids = arrays.integers((rows,), special.begin)
    ended = arrays.integers((rows,), 0) == 1
    words = arrays.integers((rows, options.max_words), special.pad)
    log_probabilities = arrays.floats((rows, options.max_words), 0.0)
    lengths = arrays.integers((rows,), 0)
    ranks = _Ranks(special, options, arrays)
    for position in range(options.max_words):
        ids, chosen = _next_words(steps.step(ids), ranks, position, options, arrays)
        lengths = lengths + arrays.where(ended, 0, 1)
        log_probabilities[:, position] = arrays.where(ended, 0.0, chosen)
        ended = ended | (ids == special.end)
        words[:, position] = arrays.where(ended, special.pad, ids)
        if _time_to_look(position, arrays) and bool(ended.all()):
            break
    words = words.reshape(pairs, -1, options.max_words)
    log_probabilities = log_probabilities.reshape(pairs, -1, options.max_words)
    lengths = lengths.reshape(pairs, -1)
    total = log_probabilities.sum(-1) / lengths**options.length_penalty
    return _best_first(words, log_probabilities, lengths, total, options.candidates, arrays)


def _next_words(
    scores: Array, ranks: _Ranks, position: int, options: DecodingOptions, arrays: Arrays
) -> tuple[Array, Array]:
    """One word a row (rows,) and the model's log-probability of it."""
    if options.method == "greedy" and not options.word_penalties:
        return arrays.likeliest(scores, ranks.forbidden(position))
    log_probabilities = arrays.log_softmax(scores)
    ranked = ranks.of(log_probabilities, position)
    if options.method == "greedy":
        ids = arrays.top(ranked, 1)[1][:, 0]
    else:
        ids = arrays.sample(
            ranked, temperature=options.temperature, top_p=options.top_p, seed=options.seed, position=position
        )
    return ids, arrays.take(log_probabilities, ids[:, None])[:, 0]


@dataclass(kw_only=True)
class _Beams:
    """Sentences of a batch of pairs: (pairs, beams, words), (pairs, beams, words), (pairs, beams)."""

    words: Array
    log_probabilities: Array
    score: Array

    @classmethod
    def empty(cls, pairs: int, beams: int, length: int, pad: int, arrays: Arrays) -> _Beams:
        return cls(
            words=arrays.integers((pairs, beams, length), pad),
            log_probabilities=arrays.floats((pairs, beams, length), 0.0),
            score=arrays.floats((pairs, beams), NEVER),
        )

    def choose(self, places: Array, arrays: Arrays) -> _Beams:
        """Those beams, in that order; `places` (pairs, chosen)."""
        return _Beams(
            words=arrays.take(self.words, places),
            log_probabilities=arrays.take(self.log_probabilities, places),
            score=arrays.take(self.score, places),
        )

    def joined(self, other: _Beams, arrays: Arrays) -> _Beams:
        """Both sets of beams of every pair."""
        return _Beams(
            words=arrays.join(self.words, other.words),
            log_probabilities=arrays.join(self.log_probabilities, other.log_probabilities),
            score=arrays.join(self.score, other.score),
        )


def _beam_search(steps: Steps, pairs: int, special: SpecialIds, options: DecodingOptions, arrays: Arrays) -> Generated:
    """Keep the `beams` best unfinished and the `beams` best finished sentences of every pair."""
    beams = options.beams
    alive = _Beams.empty(pairs, beams, options.max_words, special.pad, arrays)
    alive.score[:, 0] = 0.0  # all beams begin alike: only one may branch at first
    done = _Beams.empty(pairs, beams, options.max_words, special.pad, arrays)
    done_lengths = arrays.integers((pairs, beams), 1)
    ids = arrays.integers((pairs * beams,), special.begin)
    first_row = beams * arrays.counting(pairs)[:, None]
    ranks = _Ranks(special, options, arrays)
    for position in range(options.max_words):
        log_probabilities = arrays.log_softmax(steps.step(ids))
        grown, parents, last = _grow(alive, ranks.of(log_probabilities, position), log_probabilities, position, arrays)
        length = position + 1
        ends = last == special.end
        if length == options.max_words:
            ends = ends | True  # out of room: what there is counts as finished
        # Finished ones compete by mean log-probability, to the power of the penalty.
        score = arrays.where(~ends | (grown.score <= NEVER / 2), NEVER, grown.score / length**options.length_penalty)
        done = done.joined(replace(grown, score=score), arrays)
        done_lengths = arrays.join(done_lengths, arrays.integers(tuple(parents.shape), length))
        best = arrays.top(done.score, beams)[1]
        done, done_lengths = done.choose(best, arrays), arrays.take(done_lengths, best)
        going = arrays.top(arrays.where(ends, NEVER, grown.score), beams)[1]
        alive = grown.choose(going, arrays)
        alive.score = arrays.where(arrays.take(ends, going), NEVER, alive.score)
        ids = arrays.take(last, going).reshape(-1)
        steps.select((first_row + arrays.take(parents, going)).reshape(-1))
        if _time_to_look(position, arrays) and not bool(_can_improve(alive, done, length, options).any()):
            break
    words = arrays.where(done.words == special.end, special.pad, done.words)
    return _best_first(words, done.log_probabilities, done_lengths, done.score, options.candidates, arrays)


def _grow(
    alive: _Beams, ranks: Array, log_probabilities: Array, position: int, arrays: Arrays
) -> tuple[_Beams, Array, Array]:
    """The 2 * beams best continuations of every pair by `ranks`, their parent beams and their last words.

    Twice as many as beams, so that enough stay alive even if every beam's best word is the end. What is reported are
    the words' probabilities, whatever was taken off their rank.
    """
    pairs, beams = alive.score.shape
    vocabulary = ranks.shape[-1]
    totals = (alive.score[:, :, None] + ranks.reshape(pairs, beams, vocabulary)).reshape(pairs, -1)
    score, places = arrays.top(totals, min(2 * beams, beams * vocabulary))
    parents, last = places // vocabulary, places % vocabulary
    grown = alive.choose(parents, arrays)
    grown.words[:, :, position] = last
    grown.log_probabilities[:, :, position] = arrays.take(log_probabilities.reshape(pairs, -1), places)
    grown.score = score
    return grown, parents, last


def _can_improve(alive: _Beams, done: _Beams, length: int, options: DecodingOptions) -> Array:
    """Whether some unfinished sentence of a pair could still beat its worst finished one; both are best first."""
    longest = options.max_words if options.length_penalty > 0 else length
    return alive.score[:, 0] / longest**options.length_penalty > done.score[:, -1]


class _Ranks:
    """What words compete by: their log-probability less their penalty; the end cannot win before `min_words`."""

    def __init__(self, special: SpecialIds, options: DecodingOptions, arrays: Arrays) -> None:
        self._special, self._options, self._arrays = special, options, arrays
        self._rows: dict[int | None, Array] = {}  # by forbidden word; the same for every position

    def forbidden(self, position: int) -> int | None:
        return self._special.end if position < self._options.min_words else None

    def of(self, log_probabilities: Array, position: int) -> Array:
        """(rows, vocabulary), like `log_probabilities`."""
        forbidden = self.forbidden(position)
        if forbidden is None and not self._options.word_penalties:
            return log_probabilities
        if forbidden not in self._rows:
            taken = [0.0] * log_probabilities.shape[-1]
            for word, penalty in self._options.word_penalties:
                taken[word] += penalty
            if forbidden is not None:
                taken[forbidden] = -NEVER
            self._rows[forbidden] = self._arrays.row(taken)
        return log_probabilities - self._rows[forbidden]


def _time_to_look(position: int, arrays: Arrays) -> bool:
    return (position + 1) % arrays.words_between_looks == 0


def _best_first(
    words: Array, log_probabilities: Array, lengths: Array, score: Array, candidates: int, arrays: Arrays
) -> Generated:
    order = arrays.top(score, candidates)[1]
    return Generated(
        ids=arrays.take(words, order),
        log_probabilities=arrays.take(log_probabilities, order),
        lengths=arrays.take(lengths, order),
    )
