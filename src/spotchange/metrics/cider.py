"""CIDEr-D as the COCO caption tools compute it (they call it CIDEr): n up to 4, sigma 6, times 10."""

from __future__ import annotations

import math

import numpy as np

from spotchange.metrics.sentences import MAX_ORDER, Floats, Ints, SentenceTable, begins

SIGMA = 6.0
SCALE = 10.0


def _inverse_document_frequency(table: SentenceTable, step: int) -> Floats:
    """Weight of every n-gram of one order, from the references being evaluated."""
    grams = table.grams[step]
    reference, row = table.reference_rows[step]
    # Items already ascend, so a merge sort has little left to do (np.unique takes ten times as long).
    held = np.sort(table.item_of_reference[reference] * grams.gram_total + grams.gram[row], kind="stable")
    frequency = np.bincount(held[begins(held)] % grams.gram_total, minlength=grams.gram_total)
    # The few distinct frequencies go through one scalar logarithm, so that an n-gram which every item
    # holds weighs exactly zero: a last-bit difference would turn a zero norm into a full similarity.
    distinct, place = np.unique(np.maximum(frequency, 1), return_inverse=True)
    weights = math.log(len(table)) - np.array([math.log(many) for many in distinct.tolist()])
    result: Floats = weights[place]
    return result


def cider_d(table: SentenceTable) -> tuple[float, Floats]:
    """Corpus score (the mean) and item scores (items,)."""
    candidate_of_reference = table.candidate[table.item_of_reference]
    similarity = np.zeros(len(table.reference))
    for step in range(MAX_ORDER):
        similarity += _cosine(table, step, candidate_of_reference)
    similarity *= _length_penalty(table, candidate_of_reference)
    totals = np.add.reduceat(similarity, table.first_reference)
    items: Floats = totals / MAX_ORDER / table.references_per_item * SCALE
    return float(items.mean()), items


def _cosine(table: SentenceTable, step: int, candidate_of_reference: Ints) -> Floats:
    """Clipped cosine of each reference and its candidate over weighted n-grams of one order."""
    grams, shared = table.grams[step], table.overlaps[step]
    weight = _inverse_document_frequency(table, step)
    squares = (grams.count * weight[grams.gram]) ** 2
    norm = np.sqrt(np.bincount(grams.sentence, weights=squares, minlength=len(table.lengths)))
    # Clipping: a candidate gains nothing by saying an n-gram more often than the reference does.
    clipped = np.minimum(shared.candidate_count, shared.reference_count) * shared.reference_count
    products = clipped * weight[shared.gram] ** 2
    product = np.bincount(shared.reference, weights=products, minlength=len(table.reference)).astype(np.float64)
    below = norm[candidate_of_reference] * norm[table.reference]
    result: Floats = np.divide(product, below, out=np.zeros_like(product), where=below != 0)
    return result


def _length_penalty(table: SentenceTable, candidate_of_reference: Ints) -> Floats:
    # Parity: the length in the original's Gaussian penalty is the number of bigrams, not of words.
    bigrams = np.maximum(table.lengths - 1, 0)
    difference = (bigrams[candidate_of_reference] - bigrams[table.reference]).astype(np.float64)
    return np.exp(-(difference**2) / (2 * SIGMA**2))
