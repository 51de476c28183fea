"""Whether a system noticed the change, and which kind it thought it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spotchange.data import Row
from spotchange.evaluation.predictions import Output
from spotchange.metrics import Summable, mean_of
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
    said = np.array([output.changed for _, output in known])
    scores = {"change accuracy": float((truth == said).mean())}
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
            line = table[row.change_type]
            line[said] = line.get(said, 0) + 1
    return table
