"""Student's paired t-test: two cells of a table over the seeds that both have."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """The difference of two cells in one column, second minus first, over the seeds that both have."""

    seeds: int
    difference: float
    low: float  # interval of the mean difference at `LEVEL`
    high: float
    p_value: float  # two-sided


def paired_test(first: Mapping[int, float], second: Mapping[int, float]) -> PairedTest | None:
    """Student's paired t-test over the seeds in common; None with fewer than two of them."""
    common = sorted(set(first) & set(second))
    if len(common) < 2:
        return None
    differences = [second[seed] - first[seed] for seed in common]
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(len(common))
    freedom = len(common) - 1
    reach = quantile(LEVEL, freedom) * error
    p_value = 1.0 - within(abs(mean) / error, freedom) if error else float(mean == 0)
    return PairedTest(seeds=len(common), difference=mean, low=mean - reach, high=mean + reach, p_value=p_value)


def within(t: float, freedom: int) -> float:
    """Chance that Student's t of so many degrees of freedom lies between -t and t (Abramowitz and Stegun 26.7.3, 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(1 if odd else 0, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def quantile(chance: float, freedom: int) -> float:
    """The t that `within` gives this chance for."""
    low, high = 0.0, 1.0
    while within(high, freedom) < chance:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < chance else (low, middle)
    return high
