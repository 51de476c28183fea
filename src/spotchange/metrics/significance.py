"""How far a score can be trusted: bootstrap intervals, and a paired test between two systems.

Items are drawn again with replacement (interval) or swapped between the systems (test). Item scores are
those of the full set: in particular CIDEr-D keeps its document frequencies, as is usual.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spotchange.errors import InputError
from spotchange.metrics.resampling import Summable
from spotchange.metrics.sentences import Floats

EVERY_ORDER = 8  # items whose orders are all gone through: 40,320
ORDERS = 10_000


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rho; None for fewer than three items, or where one list does not order at all."""
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return statistics.correlation(_ranks(first), _ranks(second))


def order_test(first: Sequence[float], second: Sequence[float]) -> float | None:
    """How often orders drawn by chance agree or disagree as much (two-sided); every order of few, else a sample."""
    rho = rank_correlation(first, second)
    if rho is None:
        return None
    ours, theirs = _ranks(first), np.array(_ranks(second))
    if len(first) <= EVERY_ORDER:
        orders = np.array(list(itertools.permutations(theirs)))
    else:
        orders = np.random.default_rng(0).permuted(np.tile(theirs, (ORDERS, 1)), axis=1)
        orders[0] = theirs
    chance = (orders - theirs.mean()) @ (np.array(ours) - np.mean(ours)) / (np.std(ours) * theirs.std() * len(ours))
    return float(np.mean(np.abs(chance) >= abs(rho) - 1e-9))


def _ranks(values: Sequence[float]) -> list[float]:
    """Places in ascending order; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Holm's p-values: each of several tests made together as if it had been made alone."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    found, largest = list(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        found[place] = largest
    return found


RESAMPLES = 1000
LEVEL = 0.95
_CHUNK_NUMBERS = 4_000_000  # random numbers held at a time: 32 MB


@dataclass(frozen=True)
class PairedComparison:
    """The difference of two systems in one metric, second minus first."""

    first: float
    second: float
    difference: float
    low: float  # bootstrap interval of the difference
    high: float
    p_value: float  # approximate randomisation, two-sided


def bootstrap_intervals(
    summables: Sequence[Summable], *, resamples: int = RESAMPLES, seed: int = 0, level: float = LEVEL
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of each metric's corpus score."""
    intervals: dict[str, tuple[float, float]] = {}
    drawn = _drawn_scores(summables, resamples, seed)
    for summable, scores in zip(summables, drawn, strict=True):
        for place, name in enumerate(summable.names):
            intervals[name] = _interval(scores[:, place], level)
    return intervals


def paired_comparison(
    first: Sequence[Summable],
    second: Sequence[Summable],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> dict[str, PairedComparison]:
    """Compare two systems on the same items, metric by metric.

    The p-value is that of approximate randomisation: how often swapping the two systems' outputs item by
    item at random gives a difference at least as large as the one observed. The interval is a paired bootstrap.
    """
    if [one.names for one in first] != [other.names for other in second]:
        raise InputError("the two systems were scored with different metrics")
    if any(len(one) != len(other) for one, other in zip(first, second, strict=True)):
        raise InputError("the two systems were scored on different items")
    # The same seed draws the same items for both systems: that is what makes the bootstrap paired.
    drawn = zip(_drawn_scores(first, resamples, seed), _drawn_scores(second, resamples, seed), strict=True)
    found: dict[str, PairedComparison] = {}
    for one, other, (scores, other_scores) in zip(first, second, drawn, strict=True):
        before, after = one.corpus(), other.corpus()
        p_values = _swap_p_values(one, other, resamples, seed)
        for place, name in enumerate(one.names):
            low, high = _interval(other_scores[:, place] - scores[:, place], level)
            difference = float(after[place] - before[place])
            found[name] = PairedComparison(
                float(before[place]), float(after[place]), difference, low, high, float(p_values[place])
            )
    return found


def _drawn_scores(summables: Sequence[Summable], resamples: int, seed: int) -> list[Floats]:
    """Corpus scores of resampled item sets: (resamples, metrics) for each summable, the same draws for all."""
    scores: list[list[Floats]] = [[] for _ in summables]
    items = len(summables[0])
    random = np.random.default_rng(seed)
    for many in _chunks(resamples, items):
        draws = random.multinomial(items, np.full(items, 1 / items), size=many).astype(np.float64)
        for kept, summable in zip(scores, summables, strict=True):
            kept.append(summable.finish(draws @ summable.columns, items))
    return [np.concatenate(parts) for parts in scores]


def _swap_p_values(one: Summable, other: Summable, resamples: int, seed: int) -> Floats:
    items = len(one)
    observed = np.abs(other.corpus() - one.corpus())
    gap = other.columns - one.columns
    at_least = np.zeros(len(one.names))
    random = np.random.default_rng(seed + 1)
    for many in _chunks(resamples, items):
        moved = random.integers(0, 2, size=(many, items)).astype(np.float64) @ gap
        swapped = one.finish(one.columns.sum(axis=0) + moved, items)
        other_swapped = other.finish(other.columns.sum(axis=0) - moved, items)
        # The margin keeps rounding in the sums from hiding ties, above all for identical systems.
        at_least += (np.abs(other_swapped - swapped) >= observed - 1e-12).sum(axis=0)
    p_values: Floats = (at_least + 1) / (resamples + 1)
    return p_values


def _chunks(resamples: int, items: int) -> Iterator[int]:
    size = max(1, _CHUNK_NUMBERS // items)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def _interval(scores: Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
