"""Choosing words: greedy, beam search, sampling. Knows no model: only something that steps.

Scores come as (rows, vocabulary), one row a sentence, a pair's sentences next to each other. Everything
stays on the device; the only question asked of it is, now and then, whether all sentences have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from spotchange.errors import InputError
from spotchange.models.decoding.argmax import NEVER, likeliest
from spotchange.models.interface import DecodingOptions, Generated


class Steps(Protocol):
    """A batch of sentences in the making."""

    def step(self, ids: Tensor) -> Tensor:
        """Feed one word a row (rows,); scores of the next (rows, vocabulary)."""
        ...

    def select(self, rows: Tensor) -> None:
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


@torch.inference_mode()
def generate(
    steps: Steps, pairs: int, special: SpecialIds, options: DecodingOptions, device: torch.device
) -> Generated:
    """Sentences for `pairs` pairs, best candidate first."""
    if options.method == "beam":
        return _beam_search(steps, pairs, special, options, device)
    return _one_word_at_a_time(steps, pairs, special, options, device)


def _one_word_at_a_time(
    steps: Steps, pairs: int, special: SpecialIds, options: DecodingOptions, device: torch.device
) -> Generated:
    """Greedy and sampling: rows never meet each other."""
    rows = pairs * rows_per_pair(options)
    generator = torch.Generator(device).manual_seed(options.seed) if options.method == "sample" else None
    ids = torch.full((rows,), special.begin, device=device)
    penalties = _penalties(options, device)
    ended = torch.zeros(rows, dtype=torch.bool, device=device)
    words = torch.full((rows, options.max_words), special.pad, device=device)
    chances = torch.zeros(rows, options.max_words, device=device)
    lengths = torch.zeros(rows, dtype=torch.long, device=device)
    for position in range(options.max_words):
        scores = steps.step(ids)
        forbidden = special.end if position < options.min_words else None
        if generator is None and not options.word_penalties:
            ids, chance = likeliest(scores, forbidden)
        else:
            chances_of_all = scores.log_softmax(dim=-1, dtype=torch.float32)
            rank = _forbid(_penalised(chances_of_all, penalties), forbidden)
            ids = rank.argmax(dim=-1) if generator is None else _sample(rank, options, generator)
            chance = chances_of_all.gather(1, ids[:, None])[:, 0]
        lengths += ~ended
        chances[:, position] = chance.masked_fill(ended, 0.0)
        ended = ended | (ids == special.end)
        words[:, position] = ids.masked_fill(ended, special.pad)
        if _time_to_look(position, device) and bool(ended.all()):
            break
    shape = (pairs, -1)
    generated = (words.unflatten(0, shape), chances.unflatten(0, shape), lengths.unflatten(0, shape))
    total = generated[1].sum(dim=-1) / generated[2] ** options.length_penalty
    return _best_first(*generated, total, options.candidates)


def _sample(scores: Tensor, options: DecodingOptions, generator: torch.Generator) -> Tensor:
    """One word a row, drawn from the most likely words that together have probability `top_p`."""
    probabilities = (scores / options.temperature).softmax(dim=-1)
    if options.top_p < 1.0:
        ordered, places = probabilities.sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered  # what the likelier words already cover
        probabilities = torch.zeros_like(probabilities).scatter(1, places, ordered * (before < options.top_p))
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]


@dataclass(kw_only=True)
class _Beams:
    """Sentences of a batch of pairs: (pairs, beams, words), (pairs, beams, words), (pairs, beams)."""

    words: Tensor
    chances: Tensor
    score: Tensor

    @classmethod
    def empty(cls, pairs: int, beams: int, length: int, pad: int, device: torch.device) -> _Beams:
        return cls(
            words=torch.full((pairs, beams, length), pad, device=device),
            chances=torch.zeros(pairs, beams, length, device=device),
            score=torch.full((pairs, beams), NEVER, device=device),
        )

    def choose(self, places: Tensor) -> _Beams:
        """Those beams, in that order; `places` (pairs, chosen)."""
        wide = places[:, :, None].expand(-1, -1, self.words.shape[2])
        return _Beams(
            words=self.words.gather(1, wide),
            chances=self.chances.gather(1, wide),
            score=self.score.gather(1, places),
        )

    def joined(self, other: _Beams) -> _Beams:
        """Both sets of beams of every pair."""
        return _Beams(
            words=torch.cat([self.words, other.words], dim=1),
            chances=torch.cat([self.chances, other.chances], dim=1),
            score=torch.cat([self.score, other.score], dim=1),
        )


def _beam_search(
    steps: Steps, pairs: int, special: SpecialIds, options: DecodingOptions, device: torch.device
) -> Generated:
    """Keep the `beams` best unfinished and the `beams` best finished sentences of every pair."""
    beams = options.beams
    alive = _Beams.empty(pairs, beams, options.max_words, special.pad, device)
    alive.score[:, 0] = 0.0  # all beams begin alike: only one may branch at first
    done = _Beams.empty(pairs, beams, options.max_words, special.pad, device)
    done_lengths = torch.ones(pairs, beams, dtype=torch.long, device=device)
    ids = torch.full((pairs * beams,), special.begin, device=device)
    first_row = beams * torch.arange(pairs, device=device)[:, None]
    penalties = _penalties(options, device)
    for position in range(options.max_words):
        chance = steps.step(ids).log_softmax(dim=-1, dtype=torch.float32)
        rank = _forbid(_penalised(chance, penalties), special.end if position < options.min_words else None)
        grown, parents, last = _grow(alive, rank, chance, position)
        ends = last == special.end
        length = position + 1
        if length == options.max_words:
            ends = torch.ones_like(ends)  # out of room: what there is counts as finished
        # Finished ones compete by mean log-probability, to the power of the penalty.
        finished = _Beams(words=grown.words, chances=grown.chances, score=grown.score / length**options.length_penalty)
        finished.score = finished.score.masked_fill(~ends | (grown.score <= NEVER / 2), NEVER)
        done = done.joined(finished)
        done_lengths = torch.cat([done_lengths, torch.full_like(parents, length)], dim=1)
        best = done.score.topk(beams, dim=1).indices
        done, done_lengths = done.choose(best), done_lengths.gather(1, best)
        going = grown.score.masked_fill(ends, NEVER).topk(beams, dim=1).indices
        alive = grown.choose(going)
        alive.score = alive.score.masked_fill(ends.gather(1, going), NEVER)
        ids = last.gather(1, going).flatten()
        steps.select((first_row + parents.gather(1, going)).flatten())
        if _time_to_look(position, device) and not bool(_can_improve(alive, done, length, options).any()):
            break
    words = done.words.masked_fill(done.words == special.end, special.pad)
    return _best_first(words, done.chances, done_lengths, done.score, options.candidates)


def _grow(alive: _Beams, rank: Tensor, chance: Tensor, position: int) -> tuple[_Beams, Tensor, Tensor]:
    """The 2 * beams best continuations of every pair by `rank`, their parent beams and their last words.

    Twice as many as beams, so that enough stay alive even if every beam's best word is the end. `chance` is
    what is reported: the words' probabilities, whatever was taken off their rank.
    """
    pairs, beams = alive.score.shape
    vocabulary = rank.shape[-1]
    totals = alive.score[:, :, None] + rank.unflatten(0, (pairs, beams))
    score, places = totals.flatten(1).topk(min(2 * beams, beams * vocabulary), dim=1)
    parents, last = places // vocabulary, places % vocabulary
    grown = alive.choose(parents)
    grown.words[:, :, position] = last
    grown.chances[:, :, position] = chance.unflatten(0, (pairs, beams)).flatten(1).gather(1, places)
    grown.score = score
    return grown, parents, last


def _can_improve(alive: _Beams, done: _Beams, length: int, options: DecodingOptions) -> Tensor:
    """Whether some unfinished sentence of a pair could still beat its worst finished one."""
    longest = options.max_words if options.length_penalty > 0 else length
    return alive.score.amax(dim=1) / longest**options.length_penalty > done.score.amin(dim=1)


def _penalties(options: DecodingOptions, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids of the penalised words and what is taken off their scores."""
    ids = [word for word, _ in options.word_penalties]
    taken = [penalty for _, penalty in options.word_penalties]
    return torch.tensor(ids, dtype=torch.long, device=device), torch.tensor(taken, dtype=torch.float, device=device)


def _penalised(scores: Tensor, penalties: tuple[Tensor, Tensor]) -> Tensor:
    ids, taken = penalties
    return scores.index_add(1, ids, -taken.to(scores.dtype).expand(len(scores), -1)) if len(ids) else scores


def _forbid(scores: Tensor, word: int | None) -> Tensor:
    if word is None:
        return scores
    allowed = scores.clone()
    allowed[:, word] = NEVER
    return allowed


def _time_to_look(position: int, device: torch.device) -> bool:
    """Asking a GPU whether all have ended makes it wait; it would have made some more words meanwhile."""
    return device.type == "cpu" or position % 4 == 3


def _best_first(words: Tensor, chances: Tensor, lengths: Tensor, score: Tensor, candidates: int) -> Generated:
    order = score.topk(candidates, dim=1).indices
    wide = order[:, :, None].expand(-1, -1, words.shape[2])
    return Generated(
        ids=words.gather(1, wide), log_probabilities=chances.gather(1, wide).float(), lengths=lengths.gather(1, order)
    )
