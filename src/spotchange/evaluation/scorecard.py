"""From rows and a system's answers to every number about them, in total and for each change type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spotchange.data import Row
from spotchange.evaluation.facts import ALL_ATTRIBUTES, FACTS, Scenes, fact_values
from spotchange.evaluation.judging.scores import Judged
from spotchange.evaluation.pointing import pointing_values
from spotchange.evaluation.predictions import Output, SystemOutputs
from spotchange.metrics import Scorer, Summable, bootstrap_intervals, mean_of
from spotchange.pairs import CHANGE_TYPES

NO_CHANGE = "none"


def verdict_scores(rows: Sequence[Row], outputs: Sequence[Output]) -> dict[str, float]:
    """Change / no-change accuracy, precision and recall, and change-type accuracy.

    Only rows that say their change type count. A number that cannot be formed (precision of a system that
    never sees a change, recall where nothing changed) is left out.
    """
    known = [(row, output) for row, output in zip(rows, outputs, strict=True) if row.change_type is not None]
    if not known:
        return {}
    truth = np.array([row.change_type != NO_CHANGE for row, _ in known])
    said = np.array([bool(output.changed) for _, output in known])
    answered = np.array([output.changed is not None for _, output in known])
    scores = {"change accuracy": float(((truth == said) & answered).mean())}
    if said.any():
        scores["change precision"] = float(truth[said].mean())
    if truth.any():
        scores["change recall"] = float(said[truth].mean())
    scores["type accuracy"] = float(np.mean([output.change_type == row.change_type for row, output in known]))
    return scores


def verdict_summables(rows: Sequence[Row], outputs: Sequence[Output]) -> list[Summable]:
    """The accuracies in the form that intervals and paired tests need."""
    known = [(row, output) for row, output in zip(rows, outputs, strict=True) if row.change_type is not None]
    if len(known) < len(rows):  # resampling draws whole items: all or none must have a verdict
        return []
    noticed = [(row.change_type != NO_CHANGE) == output.changed for row, output in known]
    kind = [row.change_type == output.change_type for row, output in known]
    return [mean_of("change accuracy", np.array(noticed)), mean_of("type accuracy", np.array(kind))]


def confusion(rows: Sequence[Row], outputs: Sequence[Output]) -> dict[str, dict[str, int]]:
    """How often each true change type was taken for each other: {truth: {said: count}}, "none" first."""
    kinds = sorted({row.change_type for row in rows if row.change_type is not None})
    kinds.sort(key=lambda kind: CHANGE_TYPES.index(kind) if kind in CHANGE_TYPES else len(CHANGE_TYPES))
    table: dict[str, dict[str, int]] = {kind: {} for kind in kinds}
    for row, output in zip(rows, outputs, strict=True):
        if row.change_type is not None:
            said = output.change_type or ("unknown" if output.changed else NO_CHANGE)
            said = "no answer" if output.error is not None else said
            line = table[row.change_type]
            line[said] = line.get(said, 0) + 1
    return table


CHANGED = "changed"  # all pairs with a change, whatever its type


@dataclass(frozen=True, kw_only=True)
class SubsetScores:
    """A system's numbers on one set of pairs, as fractions."""

    pairs: int
    captions: dict[str, float]  # BLEU to CIDEr-D
    beyond: dict[str, float]  # verdicts, facts, pointing: what of them can be formed

    @property
    def scores(self) -> dict[str, float]:
        """Everything in one mapping."""
        return self.captions | self.beyond


@dataclass(frozen=True, kw_only=True)
class SystemEvaluation:
    """Everything measured about one system."""

    answered: SystemOutputs
    total: SubsetScores
    by_type: dict[str, SubsetScores]
    items: dict[str, dict[str, float]]
    intervals: dict[str, tuple[float, float]]
    confusion: dict[str, dict[str, int]]
    signature: str
    warnings: list[str]
    retrieval: dict[str, dict[str, float]] | None = None
    judged: Judged | None = None
    summables: list[Summable] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """What the system is called in tables."""
        return self.answered.name

    def as_dict(self, rows: Sequence[Row], *, items: bool = True) -> dict[str, Any]:
        """Plain JSON values, scores as fractions; with `items` also what was said and scored of each of `rows`."""
        found: dict[str, Any] = {
            "name": self.name,
            "signature": self.signature,
            "corpus": self.total.captions,
            "beyond": self.total.beyond,
            "intervals": self.intervals,
            "by_type": {
                kind: {"pairs": each.pairs, "corpus": each.captions, "beyond": each.beyond}
                for kind, each in self.by_type.items()
            },
            "confusion": self.confusion,
            "retrieval": self.retrieval,
            "judged": self.judged and self.judged.as_dict(),
        }
        if items:
            found["items"] = {row.id: self._item(place, row) for place, row in enumerate(rows)}
        return found

    def _item(self, place: int, row: Row) -> dict[str, Any]:
        """What was said and scored of one pair."""
        output = self.answered.outputs[place]
        return {
            "caption": output.caption,
            "changed": output.changed,
            "change_type": output.change_type,
            **({} if output.error is None else {"error": output.error}),
            **self.items[row.id],
            **(self.judged.item(place) if self.judged is not None else {}),
        }


def groups_of(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Row numbers by change type, all changes together first; empty where types are unknown or all alike."""
    by_type: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if row.change_type is not None:
            by_type.setdefault(row.change_type, []).append(number)
    if len(by_type) < 2:
        return {}
    changed = [number for number, row in enumerate(rows) if row.change_type not in (None, NO_CHANGE)]
    together = {CHANGED: changed} if NO_CHANGE in by_type and len(by_type) > 2 else {}
    usual = [kind for kind in (*CHANGE_TYPES[1:], NO_CHANGE) if kind in by_type]
    return together | {kind: by_type[kind] for kind in (*usual, *sorted(set(by_type) - set(usual)))}


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A row, the answer to it, and what can be said of this pair alone."""

    row: Row
    output: Output
    values: dict[str, float]


def score_system(
    rows: Sequence[Row],
    answered: SystemOutputs,
    scorer: Scorer,
    *,
    scenes: Scenes,
    signature_parts: Mapping[str, str | None],
    seed: int = 0,
    retrieval: dict[str, dict[str, float]] | None = None,
    judged: Judged | None = None,
) -> SystemEvaluation:
    """All numbers of one system: the total with its items and intervals, and each change type.

    A change type is scored as an evaluation of its own, as DUDA's tables do: document frequencies come from
    its pairs alone, so subsets do not average to the total.
    """
    pairs = [
        _Pair(
            row=row, output=output, values=fact_values(row, output.caption, scenes) | pointing_values(row, output.heat)
        )
        for row, output in zip(rows, answered.outputs, strict=True)
    ]
    result = scorer.score(_captions(pairs), **signature_parts)
    summables = [*result.summables, *verdict_summables(rows, answered.outputs), *_fact_summables(pairs)]
    summables += judged.summables if judged is not None else []
    by_type = {}
    for kind, numbers in groups_of(rows).items():
        part = [pairs[number] for number in numbers]
        by_type[kind] = _subset_scores(part, scorer.score(_captions(part)).corpus)
    return SystemEvaluation(
        answered=answered,
        total=_subset_scores(pairs, result.corpus),
        by_type=by_type,
        items={pair.row.id: result.items[pair.row.id] | pair.values for pair in pairs},
        intervals=bootstrap_intervals(summables, seed=seed),
        confusion=confusion(rows, answered.outputs),
        signature=result.signature,
        warnings=result.warnings,
        retrieval=retrieval,
        judged=judged,
        summables=summables,
    )


def _captions(pairs: Sequence[_Pair]) -> dict[str, str]:
    return {pair.row.id: pair.output.caption for pair in pairs}


def _subset_scores(pairs: Sequence[_Pair], corpus: dict[str, float]) -> SubsetScores:
    beyond = verdict_scores([pair.row for pair in pairs], [pair.output for pair in pairs])
    for name in dict.fromkeys(name for pair in pairs for name in pair.values):
        beyond[name] = float(np.mean([pair.values[name] for pair in pairs if name in pair.values]))
    return SubsetScores(pairs=len(pairs), captions=corpus, beyond=beyond)


def _fact_summables(pairs: Sequence[_Pair]) -> list[Summable]:
    """Facts in the form that intervals and paired tests need, where every pair knows its facts."""
    if not all(FACTS in pair.values for pair in pairs):
        return []
    names = [name for name in (FACTS, ALL_ATTRIBUTES) if all(name in pair.values for pair in pairs)]
    return [mean_of(name, np.array([pair.values[name] for pair in pairs])) for name in names]
