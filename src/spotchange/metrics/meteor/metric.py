"""METEOR 1.5 for English as pycocoevalcap runs it (`-l en -norm`), without Java."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotchange.errors import InputError
from spotchange.metrics.meteor.data import load_meteor_data
from spotchange.metrics.meteor.lexicon import Lexicon

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
KIND_WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase

Floats = NDArray[np.float64]


class Meteor:
    """Scores sentences of PTB tokens.

    Raises:
        MissingExtraError: the data package or the stemmer is not installed.
    """

    def __init__(self) -> None:
        self._data = load_meteor_data()
        self._lexicon: Lexicon | None = None

    def score(
        self,
        candidates: Sequence[str | Sequence[str]],
        references: Sequence[Sequence[str | Sequence[str]]],
    ) -> tuple[float, list[float]]:
        """Return the corpus score, which comes from summed statistics, and the score of every item.

        Args:
            candidates: one sentence an item: tokens, or tokens joined by blanks.
            references: one or more sentences an item.
        """
        statistics = self.statistics(candidates, references)
        return float(meteor_scores(corpus_statistics(statistics))[0]), meteor_scores(statistics).tolist()

    def statistics(
        self,
        candidates: Sequence[str | Sequence[str]],
        references: Sequence[Sequence[str | Sequence[str]]],
    ) -> Floats:
        """Return each item's statistics against its best reference; columns as in `meteor_aligner.align_pairs`."""
        # Compiling and the import of the compiler take seconds, which only METEOR's users should pay.
        from spotchange.metrics.meteor.aligner import align_pairs

        if len(candidates) != len(references) or not candidates or not all(references):
            raise InputError(f"METEOR needs a reference for each of {len(candidates)} candidates, at least one of both")
        texts = [_joined(candidate).replace("|||", "").replace("  ", " ") for candidate in candidates]
        reference_texts = [[_joined(reference) for reference in one] for one in references]
        lexicon = self._lexicon_of([*texts, *(reference for one in reference_texts for reference in one)])
        pairs = np.array(
            [
                (lexicon.number[text], lexicon.number[reference])
                for text, one in zip(texts, reference_texts, strict=True)
                for reference in one
            ],
            dtype=np.int64,
        )
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        statistics = align_pairs(
            distinct, lexicon.words, lexicon.sentence_start, lexicon.phrases, lexicon.is_function, lexicon.relations
        )
        scores = meteor_scores(statistics)
        ends = np.cumsum([len(one) for one in reference_texts])
        items = np.split(place.reshape(-1), ends[:-1])
        # Of references that score the same the first counts, which is the one argmax returns.
        return np.stack([statistics[rows[np.argmax(scores[rows])]] for rows in items])

    def _lexicon_of(self, sentences: list[str]) -> Lexicon:
        """Return a lexicon that has these sentences; parts of an evaluation reuse the one of the whole."""
        known = self._lexicon.number if self._lexicon else {}
        if self._lexicon is None or not known.keys() >= set(sentences):
            self._lexicon = Lexicon(self._data, [*known, *sentences])
        return self._lexicon


def _joined(sentence: str | Sequence[str]) -> str:
    return sentence if isinstance(sentence, str) else " ".join(sentence)


def _is_perfect(statistics: Floats) -> NDArray[np.bool_]:
    """Whether every word of both sentences is matched, in one chunk."""
    all_matched = np.all(statistics[:, 0:2] == statistics[:, 21:23], axis=1)
    return np.asarray(all_matched & (statistics[:, 20] == 1))


def corpus_statistics(statistics: Floats) -> Floats:
    """Return the sum of all rows as one row; chunks of perfect matches do not count."""
    counted = statistics.copy()
    counted[_is_perfect(statistics), 20] = 0
    return np.asarray(counted.sum(axis=0, keepdims=True))


def meteor_scores(statistics: Floats) -> Floats:
    """Return METEOR for each row of statistics."""
    matched = statistics[:, 4:20].reshape(-1, 4, 2, 2)  # (rows, kind, content or function, candidate or reference)
    weighted = np.einsum("rkfs,k,f->rs", matched, np.array(KIND_WEIGHTS), np.array([DELTA, 1 - DELTA]))
    words, function_words = statistics[:, 0:2], statistics[:, 2:4]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (weighted / (DELTA * (words - function_words) + (1 - DELTA) * function_words)).T
        mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall)
        fragmentation = statistics[:, 20] / (statistics[:, 21:23].sum(axis=1) / 2)
        fragmentation[_is_perfect(statistics)] = 0
        score = mean * (1 - GAMMA * fragmentation**BETA)
    return np.where(np.isnan(score), 0.0, score)
