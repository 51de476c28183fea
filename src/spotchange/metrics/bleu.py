"""BLEU-1 to BLEU-4 as the COCO caption tools compute them: closest reference length, sums over the corpus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spotchange.metrics.sentences import MAX_ORDER, Floats, Ints, SentenceTable

# Parity: the original adds these two guards instead of treating zero counts on their own.
TINY = 1e-15
SMALL = 1e-9


@dataclass(frozen=True)
class BleuStatistics:
    """What BLEU sums: one row an item, one column an order."""

    correct: Ints  # (items, 4): n-grams found in a reference, clipped
    guessed: Ints  # (items, 4): n-grams of the candidate
    candidate_length: Ints  # (items,)
    reference_length: Ints  # (items,): of the reference closest in length, ties to the shorter


def bleu_statistics(table: SentenceTable) -> BleuStatistics:
    """Count clipped n-gram matches and lengths for every item."""
    length = table.lengths[table.candidate]
    correct = np.zeros((len(table), MAX_ORDER), dtype=np.int64)
    for step, shared in enumerate(table.overlaps):
        item, _ = table.candidate_rows[step]
        most = np.zeros(len(item), dtype=np.int64)  # over the references of the item
        np.maximum.at(most, shared.candidate_place, np.minimum(shared.candidate_count, shared.reference_count))
        correct[:, step] = np.bincount(item, weights=most, minlength=len(table))
    guessed = np.maximum(length[:, None] - np.arange(MAX_ORDER), 0)
    return BleuStatistics(correct, guessed, length, _closest_reference_length(table, length))


def _closest_reference_length(table: SentenceTable, length: Ints) -> Ints:
    reference_length = table.lengths[table.reference]
    # One number orders by distance first and by the length itself second.
    scale = int(table.lengths.max()) + 1
    rank = np.abs(reference_length - length[table.item_of_reference]) * scale + reference_length
    return np.minimum.reduceat(rank, table.first_reference) % scale


def bleu_from_sums(correct: Floats, guessed: Floats, candidate_length: Floats, reference_length: Floats) -> Floats:
    """BLEU of any number of sums at once.

    Args:
        correct: (..., 4) clipped matches.
        guessed: (..., 4) n-grams in the candidates.
        candidate_length: (...) words in the candidates.
        reference_length: (...) words in the closest references.

    Returns:
        (..., 4) BLEU-1 to BLEU-4.
    """
    product = np.cumprod((correct + TINY) / (guessed + SMALL), axis=-1)
    score = product ** (1.0 / np.arange(1, MAX_ORDER + 1))
    ratio = (candidate_length + TINY) / (reference_length + SMALL)
    brevity = np.where(ratio < 1, np.exp(1 - 1 / np.minimum(ratio, 1)), 1.0)
    result: Floats = score * brevity[..., None]
    return result


def bleu(counts: BleuStatistics) -> tuple[Floats, Floats]:
    """Corpus scores (4,) and item scores (items, 4)."""
    columns = (counts.correct, counts.guessed, counts.candidate_length, counts.reference_length)
    items = bleu_from_sums(*(column.astype(np.float64) for column in columns))
    corpus = bleu_from_sums(*(column.sum(axis=0).astype(np.float64) for column in columns))
    return corpus, items
