"""The tables of an evaluation, once, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from spotchange.evaluation import Evaluation, retrieval_scores
from spotchange.evaluation.judging.scores import INVENTED, PRECISION, RECALL, RIGHT, Agreement
from spotchange.evaluation.published_retrieval import PUBLISHED_RULE, published_retrieval
from spotchange.evaluation.retrieval import CUTOFFS
from spotchange.evaluation.scorecard import SystemEvaluation

Look = Literal["system", "interval", "constant", "published"]
RANKS = ("median rank", "mean rank")


@dataclass(frozen=True)
class Line:
    """One line of a table, its first cell the name."""

    cells: list[str]
    look: Look = "system"


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and lines."""

    title: str
    header: list[str]
    lines: list[Line] = field(default_factory=list)


def tables_of(evaluation: Evaluation) -> list[Table]:
    """Every table there is something to say in."""
    made = [
        caption_table(evaluation),
        beyond_table(evaluation),
        judged_table(evaluation),
        comparison_table(evaluation),
        type_table(evaluation),
        cider_by_type_table(evaluation),
        retrieval_table(evaluation),
    ]
    return [table for table in made if table is not None]


def percent(value: float | None) -> str:
    """A fraction as a number of percent; nothing where there is none."""
    return "" if value is None else f"{100 * value:.1f}"


def caption_table(evaluation: Evaluation) -> Table:
    """The standard metrics: systems with intervals, the constant caption, the papers."""
    names = list(evaluation.constant.total.captions)
    title = f"{evaluation.data_set}, {evaluation.split}: {len(evaluation.rows)} pairs, in percent"
    lines = _lines(evaluation.systems, names)
    lines.append(_constant_line(evaluation.constant, names))
    for row in (row for row in evaluation.published if not row.ablation):
        printed = ["" if (value := row.scores.get(name)) is None else f"{value:.1f}" for name in names]
        lines.append(Line([row.system, *printed], "published"))
    return Table(title, ["", *names], lines)


def beyond_table(evaluation: Evaluation) -> Table | None:
    """What the field leaves out: verdicts, facts, pointing."""
    names = list(dict.fromkeys(name for system in evaluation.systems for name in system.total.beyond))
    if not names:
        return None
    lines = [*_lines(evaluation.systems, names), _constant_line(evaluation.constant, names)]
    return Table("Beyond the words, in percent", ["", *names], lines)


def judged_table(evaluation: Evaluation) -> Table | None:
    """What a judge says of the captions, and beside every score how far the judge agrees with the checker."""
    judged = [(system, system.judged) for system in evaluation.systems if system.judged is not None]
    if not judged:
        return None
    names = (RECALL, PRECISION, RIGHT, INVENTED)
    lines = []
    for system, found in judged:
        scores = [found.scores.get(name) for name in names]
        shown = [*map(percent, scores[:3]), "" if scores[3] is None else f"{scores[3]:.2f}"]
        lines.append(Line([system.name, *shown, *_agreement(found.agreement)]))
        ranges = [system.intervals.get(name) if found.scores.get(name) is not None else None for name in names]
        halves = ["" if each is None else f"±{percent((each[1] - each[0]) / 2)}" for each in ranges[:3]]
        last = "" if ranges[3] is None else f"±{(ranges[3][1] - ranges[3][0]) / 2:.2f}"
        sure = found.agreement and found.agreement.interval
        spread = f"±{percent((sure[1] - sure[0]) / 2)}" if sure else ""
        lines.append(Line(["  95 % interval", *halves, last, spread, ""], "interval"))
    checked = ", ".join(str(found.agreement.pairs if found.agreement else 0) for _, found in judged)
    title = f"Judged by {judged[0][1].judge}, in percent; agrees: with the checker, on {checked} captions"
    # Few columns, so that the judge's own figures stay beside its scores on a narrow terminal.
    return Table(title, ["", "recall", "precision", "right", "invented", "agrees", "kappa"], lines)


def _agreement(agreement: Agreement | None) -> list[str]:
    if agreement is None:
        return ["–", ""]
    return [percent(agreement.share), "" if agreement.kappa is None else f"{agreement.kappa:.2f}"]


def _lines(systems: Iterable[SystemEvaluation], names: list[str]) -> list[Line]:
    lines = []
    for system in systems:
        lines.append(Line([system.name, *(percent(system.total.scores.get(name)) for name in names)]))
        ranges = [system.intervals.get(name) for name in names]
        if any(ranges):
            # Half the width of the interval; its ends stand in the JSON.
            shown = ["" if each is None else f"±{percent((each[1] - each[0]) / 2)}" for each in ranges]
            lines.append(Line(["  95 % interval", *shown], "interval"))
    return lines


def _constant_line(constant: SystemEvaluation, names: list[str]) -> Line:
    return Line(["constant caption", *(percent(constant.total.scores.get(name)) for name in names)], "constant")


def type_table(evaluation: Evaluation) -> Table | None:
    """Each change type as an evaluation of its own, with the constant caption in each."""
    first = evaluation.systems[0]
    if not first.by_type:
        return None
    names = [*evaluation.constant.total.captions]
    names += [name for name in ("change accuracy", "type accuracy", "fact accuracy", "pointing") if _has(first, name)]
    lines = []
    for kind, subset in first.by_type.items():
        for system in evaluation.systems:
            scores = system.by_type[kind].scores
            shown = [percent(scores.get(name)) for name in names]
            lines.append(Line([f"{kind}: {system.name}", str(subset.pairs), *shown]))
        floor = evaluation.constant.by_type[kind].scores
        shown = [percent(floor.get(name)) for name in names]
        lines.append(Line([f"{kind}: constant", str(subset.pairs), *shown], "constant"))
    return Table("By change type, each an evaluation of its own, in percent", ["", "pairs", *names], lines)


def _has(system: SystemEvaluation, name: str) -> bool:
    return any(name in subset.beyond for subset in system.by_type.values())


def cider_by_type_table(evaluation: Evaluation) -> Table | None:
    """CIDEr-D by type in the papers' layout, where papers are asked for and give it."""
    printed = [row for row in evaluation.published if row.cider_by_type]
    kinds = list(evaluation.systems[0].by_type)
    if not printed or not kinds:
        return None
    shown: list[tuple[SystemEvaluation, Look]] = [(each, "system") for each in evaluation.systems]
    ours = [
        Line([system.name, *(percent(system.by_type[kind].captions["CIDEr-D"]) for kind in kinds)], look)
        for system, look in [*shown, (evaluation.constant, "constant")]
    ]
    papers = [
        Line(
            [row.system, *("" if (value := row.cider_by_type.get(kind)) is None else f"{value:.1f}" for kind in kinds)],
            "published",
        )
        for row in printed
    ]
    return Table("CIDEr-D by change type, in percent", ["", *kinds], ours + papers)


def retrieval_table(evaluation: Evaluation) -> Table | None:
    """Ranking both ways, with what a model that cannot tell anything apart would get."""
    ranked = [system for system in evaluation.systems if system.retrieval]
    if not ranked:
        return None
    names = [*(f"R@{cutoff}" for cutoff in CUTOFFS), *RANKS]
    directions = list(ranked[0].retrieval or {})
    lines = []
    for direction in directions:
        for system in ranked:
            lines.append(Line([f"{direction}: {system.name}", *_retrieved((system.retrieval or {})[direction], names)]))
        lines.append(Line([f"{direction}: constant", *_retrieved(_blind(evaluation)[direction], names)], "constant"))
        paper = direction.removesuffix(PUBLISHED_RULE)
        for row in evaluation.published if paper != direction else ():  # theirs follow their own rule
            if paper in row.retrieval:
                shown = ["" if (v := row.retrieval[paper].get(name)) is None else f"{v:.1f}" for name in names]
                lines.append(Line([f"{direction}: {row.system}", *shown], "published"))
    return Table("Retrieval on pairs with a change, R@K in percent", ["", *names], lines)


def _retrieved(scores: Mapping[str, float], names: list[str]) -> list[str]:
    return [f"{scores[name]:.1f}" if name in RANKS else percent(scores[name]) for name in names]


def _blind(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    column: dict[str, int] = {}
    captions = [
        [column.setdefault(text, len(column)) for text in row.captions]
        for row in evaluation.rows
        if row.change_type != "none" and any(row.captions)
    ]
    blind = np.zeros((len(captions), len(column)), dtype=np.float32)
    return retrieval_scores(blind, captions) | published_retrieval(blind, captions)


def comparison_table(evaluation: Evaluation) -> Table | None:
    """Two systems on the same pairs, with the paired test."""
    if evaluation.comparison is None:
        return None
    first, second = evaluation.systems
    lines = [
        Line(
            [
                name,
                percent(each.first),
                percent(each.second),
                f"{100 * each.difference:+.1f}",
                f"{100 * each.low:+.1f} to {100 * each.high:+.1f}",
                f"{each.p_value:.3f}",
            ]
        )
        for name, each in evaluation.comparison.items()
    ]
    floor = percent(evaluation.constant.total.captions["CIDEr-D"])
    lines.append(Line(["constant caption, CIDEr-D", floor, floor, "", "", ""], "constant"))
    header = ["", f"A: {first.name}", f"B: {second.name}", "B - A", "95 % interval", "p"]
    return Table("Paired comparison (bootstrap interval, randomisation test)", header, lines)
