"""Retrieval by the rule of the published CLIP4IDC program, for figures beside its own.

It differs from ours in three ways. For a pair it ranks the other pairs' groups of captions, each by its best one, not
single captions. Equal scores are entries of their own: a tie of two at the top gives the ranks 1 and 2, and the means
divide by the number of entries; the same sentence under two pairs makes such ties. And a caption has one right pair,
even if another pair has the same caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotchange.errors import InputError

CUTOFFS = (1, 5, 10, 20, 50)
PUBLISHED_RULE = ", published rule"
PAIR_TO_TEXT, TEXT_TO_PAIR = f"pair to text{PUBLISHED_RULE}", f"text to pair{PUBLISHED_RULE}"

Similarity = NDArray[np.floating[Any]]
Ranks = NDArray[np.int64]


def published_retrieval(similarity: Similarity, captions: Sequence[Sequence[int]]) -> dict[str, dict[str, float]]:
    """Score a similarity matrix in both directions.

    Args:
        similarity: (pairs, texts).
        captions: For each pair, the columns of its captions.

    Returns:
        Scores under `PAIR_TO_TEXT` and `TEXT_TO_PAIR`: R@1 and so on, "median rank", "mean rank".
    """
    check_similarities(similarity, captions)
    to_text, to_pair = pair_to_text_ranks(similarity, captions), text_to_pair_ranks(similarity, captions)
    return {
        PAIR_TO_TEXT: _summary(to_text, median=float(np.median(to_text))),
        # The lower of two middle ranks, as torch takes it.
        TEXT_TO_PAIR: _summary(to_pair, median=float(np.sort(to_pair)[(len(to_pair) - 1) // 2])),
    }


def check_similarities(similarity: Similarity, captions: Sequence[Sequence[int]]) -> None:
    """Refuse what has no ranks; against nan nothing is ahead, so that a model that diverged would come out first."""
    if similarity.shape[0] != len(captions) or not len(captions):
        raise InputError(f"{similarity.shape[0]} rows of similarities against {len(captions)} pairs")
    if np.isnan(similarity).any():
        raise InputError("similarities are not numbers: has the model diverged?")


def pair_to_text_ranks(similarity: Similarity, captions: Sequence[Sequence[int]]) -> Ranks:
    """Every place that holds the score of a pair's own group, of all pairs one after another."""
    groups = np.stack([similarity[:, list(columns)].max(axis=1) for columns in captions], axis=1)  # (pairs, groups)
    ranks: list[int] = []
    for pair, scores in enumerate(groups):
        ahead, equal = int((scores > scores[pair]).sum()), int((scores == scores[pair]).sum())
        ranks += range(1 + ahead, 1 + ahead + equal)
    return np.array(ranks)


def text_to_pair_ranks(similarity: Similarity, captions: Sequence[Sequence[int]]) -> Ranks:
    """The place of every caption's own pair; of equal scores the earlier pair comes first."""
    ranks = []
    for pair, columns in enumerate(captions):
        for column in columns:
            scores = similarity[:, column]
            ranks.append(1 + int((scores > scores[pair]).sum()) + int((scores[:pair] == scores[pair]).sum()))
    return np.array(ranks)


def _summary(ranks: Ranks, *, median: float) -> dict[str, float]:
    scores = {f"R@{cutoff}": float((ranks <= cutoff).mean()) for cutoff in CUTOFFS}
    return scores | {"median rank": median, "mean rank": float(ranks.mean())}
