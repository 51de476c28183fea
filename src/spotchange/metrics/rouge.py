"""ROUGE-L as the COCO caption tools compute it: best precision and best recall chosen independently."""

from __future__ import annotations

import numpy as np

from spotchange.metrics.sentences import Floats, Ints, SentenceTable

BETA = 1.2


def longest_common_subsequence(positions: dict[int, int], length: int, other: list[int]) -> int:
    """Length of the longest common subsequence of a sentence and `other`.

    Bit-parallel (Crochemore et al. 2001): a whole row of the usual table is one whole number, a zero bit
    for each place where the subsequence grows.

    Args:
        positions: for each word of the sentence, a number with a bit set wherever it stands.
        length: words in the sentence.
        other: the sentence compared with it.
    """
    row = everything = (1 << length) - 1
    for match in map(positions.get, other):
        if match:
            kept = row & match
            row = (row + kept) | (row - kept)
    return length - (row & everything).bit_count()  # carries run off above the sentence


def _positions(sentence: list[int]) -> dict[int, int]:
    positions: dict[int, int] = {}
    for place, word in enumerate(sentence):
        positions[word] = positions.get(word, 0) | (1 << place)
    return positions


def _common_lengths(table: SentenceTable) -> Ints:
    """For each reference, the length of its longest common subsequence with its item's candidate."""
    words, start = table.words.tolist(), table.word_start.tolist()
    candidates = set(table.candidate.tolist())
    positions = {number: _positions(words[start[number] : start[number + 1]]) for number in candidates}
    many = len(table.lengths)
    candidate = table.candidate[table.item_of_reference]
    distinct, place = np.unique(candidate * many + table.reference, return_inverse=True)
    lengths = [
        longest_common_subsequence(positions[one], start[one + 1] - start[one], words[start[other] : start[other + 1]])
        for one, other in zip((distinct // many).tolist(), (distinct % many).tolist(), strict=True)
    ]
    return np.asarray(lengths, dtype=np.int64)[place]


def rouge_l(table: SentenceTable) -> tuple[float, Floats]:
    """Corpus score (the mean) and item scores (items,)."""
    candidate_length = table.lengths[table.candidate][table.item_of_reference]
    reference_length = table.lengths[table.reference]
    common = _common_lengths(table)
    # Parity: the original splits on a single space, so an empty sentence is one empty word.
    common = np.where((candidate_length == 0) & (reference_length == 0), 1, common)
    precision = np.maximum.reduceat(common / np.maximum(candidate_length, 1), table.first_reference)
    recall = np.maximum.reduceat(common / np.maximum(reference_length, 1), table.first_reference)
    below = recall + BETA**2 * precision
    items: Floats = np.divide(
        (1 + BETA**2) * precision * recall, below, out=np.zeros_like(below), where=(precision != 0) & (recall != 0)
    )
    return float(items.mean()), items
