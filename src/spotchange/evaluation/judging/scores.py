"""From matched claims to scores with intervals, and the judge itself measured against the checker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spotchange.data import Row
from spotchange.errors import SpotchangeError
from spotchange.evaluation.facts import Scenes, is_true
from spotchange.evaluation.judging.differences import differences_of
from spotchange.evaluation.judging.judge import Judge, Matched
from spotchange.evaluation.predictions import Output
from spotchange.metrics import Summable, ratio_of

RECALL, PRECISION, INVENTED, RIGHT = "judged recall", "judged precision", "invented differences", "judged right"
_NORMAL = 1.959964  # two-sided 95 %


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often the judge and the checker say the same of a caption: true or not."""

    both_true: int
    both_false: int
    judge_only: int  # the judge took a false caption for true
    checker_only: int  # the judge took a true caption for false

    @property
    def pairs(self) -> int:
        return self.both_true + self.both_false + self.judge_only + self.checker_only

    @property
    def share(self) -> float:
        """Of the captions that both judged."""
        return (self.both_true + self.both_false) / self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, at 95 %."""
        n, p = self.pairs, self.share
        middle = (p + _NORMAL**2 / (2 * n)) / (1 + _NORMAL**2 / n)
        half = _NORMAL / (1 + _NORMAL**2 / n) * math.sqrt(p * (1 - p) / n + _NORMAL**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    @property
    def kappa(self) -> float | None:
        """Cohen's: agreement beyond chance; None where one of the two always says the same."""
        judge = (self.both_true + self.judge_only) / self.pairs
        checker = (self.both_true + self.checker_only) / self.pairs
        chance = judge * checker + (1 - judge) * (1 - checker)
        return None if chance == 1 else (self.share - chance) / (1 - chance)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "share": self.share, "interval": list(self.interval), "kappa": self.kappa}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A system's captions as a judge saw them."""

    judge: str
    matched: list[Matched | SpotchangeError | None]
    summables: list[Summable]
    agreement: Agreement | None  # None: no pair whose truth is known by other means
    sources: tuple[str, ...]  # where the difference lists come from

    @property
    def scores(self) -> dict[str, float]:
        """Over all pairs that were judged; what cannot be formed (precision of no claims at all) is left out."""
        formed = (each for each in self.summables if each.columns[:, 1].any())
        return {each.names[0]: float(each.corpus()[0]) for each in formed}

    @property
    def errors(self) -> list[SpotchangeError]:
        """Pairs without a usable reply: they count in no score."""
        return [each for each in self.matched if isinstance(each, SpotchangeError)]

    def notes(self, system: str) -> list[str]:
        """What is to be known before the judged scores of this system are believed."""
        found = []
        if errors := self.errors:
            told = f"{len(errors)} of {len(self.matched)} captions could not be judged and count in no judged score"
            found.append(f"{system}: {told}; the first: {errors[0].message}")
        if self.agreement is None:
            told = f"the judge {self.judge} was not measured against the checker"
            found.append(f"{system}: {told}: there is no caption that both could read")
        if self.judge == system:
            found.append(f"{system} judges its own captions")
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "judge": self.judge,
            "scores": self.scores,
            "pairs": sum(isinstance(each, Matched) for each in self.matched),
            "errors": len(self.errors),
            "without_differences": sum(each is None for each in self.matched),
            "differences_from": list(self.sources),
            "agreement_with_checker": self.agreement and self.agreement.as_dict(),
        }

    def item(self, place: int) -> dict[str, Any]:
        """What was said of one pair."""
        found = self.matched[place]
        if found is None:
            return {}
        if isinstance(found, SpotchangeError):
            return {"judge_error": found.message}
        claims = [{"text": text, "difference": number} for text, number in found.claims]
        return {"judged_right": found.right, "differences": list(found.differences), "claims": claims}


def judge_outputs(judge: Judge, rows: Sequence[Row], outputs: Sequence[Output], scenes: Scenes) -> Judged:
    """Judge every caption, and the judge where the truth is known."""
    matched = judge.match(rows, outputs)
    sources = dict.fromkeys(known.source for row in rows if (known := differences_of(row)) is not None)
    return Judged(
        judge=judge.name,
        matched=matched,
        summables=_summables(matched),
        agreement=measure_agreement(matched, rows, outputs, scenes),
        sources=tuple(sources),
    )


def measure_agreement(
    matched: Sequence[Matched | SpotchangeError | None],
    rows: Sequence[Row],
    outputs: Sequence[Output],
    scenes: Scenes,
) -> Agreement | None:
    """The judge against the checker, on captions that both can judge."""
    counts = {(judge, checker): 0 for judge in (True, False) for checker in (True, False)}
    for found, row, output in zip(matched, rows, outputs, strict=True):
        if isinstance(found, Matched) and output.error is None:
            # Of a list the judge saw every entry: it is right where each of them is.
            truths = [is_true(row, text, scenes) for text in output.differences or (output.caption,)]
            if None not in truths:
                counts[found.right, all(truths)] += 1
    if not any(counts.values()):
        return None
    return Agreement(
        both_true=counts[True, True],
        both_false=counts[False, False],
        judge_only=counts[True, False],
        checker_only=counts[False, True],
    )


def _summables(matched: Sequence[Matched | SpotchangeError | None]) -> list[Summable]:
    """Counts per pair, summed before they are divided; a pair that was not judged adds nothing to either side."""
    good = [each if isinstance(each, Matched) else None for each in matched]

    def column(of: Any) -> np.ndarray:
        return np.array([0.0 if each is None else float(of(each)) for each in good])

    judged = column(lambda each: 1)
    claims = column(lambda each: len(each.claims))
    return [
        ratio_of(RECALL, column(lambda each: each.found), column(lambda each: len(each.differences))),
        ratio_of(PRECISION, column(lambda each: len(each.claims) - each.invented), claims),
        ratio_of(INVENTED, column(lambda each: each.invented), judged),
        ratio_of(RIGHT, column(lambda each: each.right), judged),
    ]
