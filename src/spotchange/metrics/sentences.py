"""Candidates and references as integer n-gram tables: what BLEU, ROUGE-L and CIDEr-D all read.

Every distinct sentence is taken apart once, however many items use it, and the n-grams that a
candidate shares with each of its references are found by one sorted join per order. The metrics
themselves are then a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotchange.errors import InputError

MAX_ORDER = 4

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GramTable:
    """How often each n-gram of one order stands in each distinct sentence; rows sorted by (sentence, gram)."""

    sentence: Ints  # (rows,)
    gram: Ints  # (rows,)
    count: Ints  # (rows,)
    start: Ints  # (sentences + 1,): the rows of sentence s are start[s] to start[s + 1]
    gram_total: int


@dataclass(frozen=True)
class Overlap:
    """The n-grams of one order that a candidate shares with one of its references, a row each."""

    reference: Ints  # index into SentenceTable.reference
    gram: Ints
    candidate_count: Ints
    reference_count: Ints
    candidate_place: Ints  # index into SentenceTable.candidate_rows


class SentenceTable:
    """N items, each with one candidate and one or more references.

    Args:
        candidates: one sentence an item, its tokens joined by single blanks.
        references: the sentences of each item, written likewise.
    """

    def __init__(self, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        if len(candidates) != len(references):
            raise InputError(f"{len(candidates)} candidates against {len(references)} lists of references")
        if not candidates:
            raise InputError("nothing to score: there are no items")
        if not all(references):
            raise InputError("an item has no reference")
        index: dict[str, int] = {}
        self.candidate: Ints = _array([index.setdefault(sentence, len(index)) for sentence in candidates])
        flat = [sentence for sentences in references for sentence in sentences]
        self.reference: Ints = _array([index.setdefault(sentence, len(index)) for sentence in flat])
        self.references_per_item: Ints = _array([len(sentences) for sentences in references])
        self.item_of_reference: Ints = np.repeat(np.arange(len(candidates)), self.references_per_item)
        self.first_reference: Ints = np.cumsum(self.references_per_item) - self.references_per_item

        words = " ".join(filter(None, index)).split(" ") if any(index) else []
        vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
        self.words: Ints = np.fromiter(map(vocabulary.__getitem__, words), dtype=np.int64, count=len(words))
        self.vocabulary_size = len(vocabulary)
        self.lengths: Ints = _array([sentence.count(" ") + 1 if sentence else 0 for sentence in index])
        self.word_start: Ints = np.concatenate([[0], np.cumsum(self.lengths)])

    def __len__(self) -> int:
        return len(self.candidate)

    @cached_property
    def grams(self) -> list[GramTable]:
        """One table for each order from 1 to 4."""
        sentence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        left_in_sentence = np.repeat(self.word_start[1:], self.lengths) - np.arange(len(self.words))
        following = np.zeros((MAX_ORDER, len(self.words)), dtype=np.int32)  # 0: past the end of the sentence
        for step in range(MAX_ORDER):
            following[step, : max(0, len(self.words) - step)] = self.words[step:] + 1
            following[step] *= left_in_sentence > step
        place, differs = _lexical_order(following, self.vocabulary_size + 1)
        tables = []
        for step in range(MAX_ORDER):
            gram = np.empty(len(self.words), dtype=np.int64)
            gram[place] = np.cumsum(differs[step])
            whole = left_in_sentence > step
            tables.append(self._count(sentence[whole], gram[whole]))
        return tables

    def _count(self, sentence: Ints, gram: Ints) -> GramTable:
        gram_total = int(gram.max(initial=0)) + 1
        # Sentences already ascend, so a merge sort has little left to do (np.unique takes five times as long).
        keys = np.sort(sentence * gram_total + gram, kind="stable")
        first = np.flatnonzero(begins(keys))
        count = np.diff(first, append=len(keys))
        sentence, gram = np.divmod(keys[first], gram_total)
        start = np.searchsorted(sentence, np.arange(len(self.lengths) + 1))
        return GramTable(sentence, gram, count, start, gram_total)

    @cached_property
    def candidate_rows(self) -> list[tuple[Ints, Ints]]:
        """For each order, every n-gram of every candidate: (its item, its row in the table of that order)."""
        return [_rows(table, self.candidate) for table in self.grams]

    @cached_property
    def reference_rows(self) -> list[tuple[Ints, Ints]]:
        """For each order, every n-gram of every reference: (index into `reference`, its row in the table)."""
        return [_rows(table, self.reference) for table in self.grams]

    @cached_property
    def overlaps(self) -> list[Overlap]:
        """The shared n-grams of every order from 1 to 4."""
        return [self._overlap(step) for step in range(MAX_ORDER)]

    def _overlap(self, step: int) -> Overlap:
        table = self.grams[step]
        item, candidate_row = self.candidate_rows[step]
        reference, row = self.reference_rows[step]
        wanted = item * table.gram_total + table.gram[candidate_row]  # sorted by item, and by gram within it
        ever = np.zeros(table.gram_total, dtype=bool)
        ever[table.gram[candidate_row]] = True
        possible = ever[table.gram[row]]  # most n-grams of references stand in no candidate: spare their search
        reference, row = reference[possible], row[possible]
        key = self.item_of_reference[reference] * table.gram_total + table.gram[row]
        place = np.searchsorted(wanted, key)
        shared = place < len(wanted)
        shared[shared] = wanted[place[shared]] == key[shared]
        place, reference, row = place[shared], reference[shared], row[shared]
        return Overlap(
            reference=reference,
            gram=table.gram[row],
            candidate_count=table.count[candidate_row[place]],
            reference_count=table.count[row],
            candidate_place=place,
        )


def _rows(table: GramTable, sentences: Ints) -> tuple[Ints, Ints]:
    first = table.start[sentences]
    many = table.start[sentences + 1] - first
    use = np.repeat(np.arange(len(sentences)), many)
    row = np.arange(len(use)) + np.repeat(first - (np.cumsum(many) - many), many)
    return use, row


def _lexical_order(following: NDArray[np.int32], values: int) -> tuple[Ints, list[NDArray[np.bool_]]]:
    """Sort the columns of (4, words) by their first row, then their second, and so on.

    One such sort puts equal n-grams of every order side by side.

    Returns:
        The order, and for each order of n-grams where, in that order, another n-gram begins.
    """
    if values <= 1 << 16:  # four words fit one machine word: a single fast sort
        packed = np.zeros(following.shape[1], dtype=np.uint64)
        for row in following:
            packed = (packed << np.uint64(16)) | row.astype(np.uint64)
        place = np.argsort(packed)
        packed = packed[place]
        return place, [begins(packed >> np.uint64(shift)) for shift in (48, 32, 16, 0)]
    place = np.lexsort(following[::-1])
    differs = np.array([begins(row) for row in following[:, place]])
    return place, list(np.logical_or.accumulate(differs))


def begins(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first one does."""
    differs = np.ones(len(ordered), dtype=bool)
    differs[1:] = ordered[1:] != ordered[:-1]
    return differs


def _array(numbers: list[int]) -> Ints:
    return np.asarray(numbers, dtype=np.int64)
