"""Per-item numbers that sum up to a corpus score, for any selection of items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spotchange.metrics.bleu import BleuStatistics, bleu_from_sums
from spotchange.metrics.sentences import MAX_ORDER, Floats


@dataclass(frozen=True)
class Summable:
    """One or more metrics that are a function of sums over items.

    Attributes:
        names: the metrics, in the order `finish` gives them.
        columns: (items, k) what is summed.
        finish: (..., k) sums and the number of items summed -> (..., len(names)) scores.
    """

    names: tuple[str, ...]
    columns: Floats
    finish: Callable[[Floats, int], Floats]

    def __len__(self) -> int:
        return len(self.columns)

    def corpus(self) -> Floats:
        """The scores of all items together."""
        return self.finish(self.columns.sum(axis=0), len(self.columns))


def mean_of(name: str, items: Floats) -> Summable:
    """A metric whose corpus score is the mean of its item scores."""
    return Summable((name,), np.asarray(items, dtype=np.float64)[:, None], lambda sums, count: sums / count)


def ratio_of(name: str, parts: Floats, wholes: Floats) -> Summable:
    """A metric whose corpus score is one sum over another, such as precision; 0 where there is nothing to divide by."""
    columns = np.stack([parts, wholes], axis=1).astype(np.float64)

    def finish(sums: Floats, count: int) -> Floats:
        top, bottom = sums[..., :1], sums[..., 1:]
        return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)

    return Summable((name,), columns, finish)


def bleu_of(statistics: BleuStatistics) -> Summable:
    """BLEU-1 to BLEU-4, whose corpus scores are no means: counts and lengths are summed first."""
    lengths = np.stack([statistics.candidate_length, statistics.reference_length], axis=1)
    columns = np.concatenate([statistics.correct, statistics.guessed, lengths], axis=1).astype(np.float64)

    def finish(sums: Floats, count: int) -> Floats:
        correct, guessed = sums[..., :MAX_ORDER], sums[..., MAX_ORDER : 2 * MAX_ORDER]
        return bleu_from_sums(correct, guessed, sums[..., -2], sums[..., -1])

    return Summable(tuple(f"BLEU-{order}" for order in range(1, MAX_ORDER + 1)), columns, finish)


def meteor_of(statistics: Floats) -> Summable:
    """METEOR, whose corpus score comes from summed statistics as well."""
    from spotchange.metrics.meteor.metric import corpus_statistics, meteor_scores

    # Row by row, because what a row adds to the sum is not the row: chunks of perfect matches do not count.
    columns = np.concatenate([corpus_statistics(row[None]) for row in statistics])

    def finish(sums: Floats, count: int) -> Floats:
        return meteor_scores(sums.reshape(-1, sums.shape[-1])).reshape(*sums.shape[:-1], 1)

    return Summable(("METEOR",), columns, finish)
