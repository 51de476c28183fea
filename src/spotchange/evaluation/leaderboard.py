"""One table of many trained systems: runs that kept their captions of the same held-out pairs, read and compared.

A run's folder holds `captions.jsonl` (with `validation.keep_captions`), `log.jsonl` and `best/`. Seeds of a system are
averaged; where it was trained with several learning rates, the one that validated best counts. Only runs of one length
are compared: a system's shorter runs are left out beside a full one, and a system with none but short ones stands last,
untested.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from spotchange.errors import DataError, InputError
from spotchange.evaluation.published import PublishedRow, published_rows
from spotchange.evaluation.trained_run import TrainedRun, read_run
from spotchange.metrics import (
    PairedComparison,
    Scorer,
    Summable,
    best_constant,
    bootstrap_intervals,
    mean_of,
    paired_comparison,
)
from spotchange.metrics.significance import order_test, rank_correlation
from spotchange.pairs import CHANGE_TYPES

CAPTIONS = "captions.jsonl"
SPEEDS = "speeds.json"
METRICS = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
FACTS, NONE = "facts", "none"
JUDGED_BY = "CIDEr-D"
FULL = 0.9  # of the pairs that the longest run had: what is shorter is not compared


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One run's numbers, as fractions."""

    run: TrainedRun
    scores: dict[str, float]
    by_kind: dict[str, dict[str, float]]
    summables: list[Summable] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the table: a system over its seeds."""

    title: str
    faithful: bool
    runs: list[Scored]
    full: bool
    """Whether its runs are as long as the longest."""
    published: PublishedRow | None
    intervals: dict[str, tuple[float, float]]
    against_best: dict[str, PairedComparison] | None
    """Minus the best system's, over the seeds that both have; None for the best itself and for short runs."""
    speeds: dict[str, float]
    """Pairs a second in training and captioning, measured alone."""

    def mean(self, name: str) -> float | None:
        """A score over the seeds."""
        found = [run.scores[name] for run in self.runs if name in run.scores]
        return statistics.fmean(found) if found else None

    def spread(self, name: str) -> float | None:
        """Sample standard deviation over the seeds; None for one."""
        found = [run.scores[name] for run in self.runs if name in run.scores]
        return statistics.stdev(found) if len(found) > 1 else None

    def by_kind(self, kind: str, name: str) -> float | None:
        """A score on one kind of change over the seeds."""
        found = [run.by_kind[kind][name] for run in self.runs if name in run.by_kind.get(kind, {})]
        return statistics.fmean(found) if found else None

    @property
    def run(self) -> TrainedRun:
        """The first seed's."""
        return self.runs[0].run


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """All systems, best first."""

    name: str
    pairs: int
    kinds: list[str]
    entries: list[Entry]
    constant: Scored
    constant_caption: str
    rank_correlation: float | None
    """Spearman's, of our CIDEr-D and the published, over systems whose code was known and that trained in full."""
    rank_p_value: float | None
    """How often an order drawn by chance agrees or disagrees as much."""
    ranked: list[str]
    """Those systems."""
    only_published: list[PublishedRow]
    """Systems of the papers that were not trained here."""
    notes: list[str]


def read_leaderboard(
    folders: Sequence[Path], *, published: str = "clevr-change", meteor: bool | None = None, seeds: int | None = None
) -> Leaderboard:
    """Read every run below the folders; all must have spoken of the same pairs.

    Args:
        folders: Where runs are.
        published: Whose published rows stand beside.
        meteor: Whether METEOR is computed; None: where its data is installed.
        seeds: At most so many of a system, the first ones, so that rows have equal numbers; None: all.
    """
    runs = [read_run(path.parent) for folder in folders for path in sorted(folder.rglob(CAPTIONS))]
    if not runs:
        raise InputError(
            f"no {CAPTIONS} below {', '.join(map(str, folders))}",
            hint="train with validation.keep_captions: true; `spotchange ablate leaderboard` does",
        )
    references = runs[0].references
    for run in runs:
        if not all(run.references.values()):  # an archive of real pairs holds nothing that people wrote
            raise DataError(
                f"{run.folder / CAPTIONS} has captions without references",
                hint="python benchmarks/kept_runs.py restore NAME --references DATA/SPLIT puts them in",
            )
        if run.references != references:
            raise DataError(f"{run.folder} spoke of other pairs than {runs[0].folder}")
    scorer = Scorer(references, meteor=meteor)
    rows = {row.system: row for row in published_rows(published)}
    speeds = _speeds(folders)
    most = max((run.pairs or 0 for run in runs), default=0)
    chosen, left_out = _of_one_length(_by_system(runs), most)
    scored = {title: [score_run(run, scorer) for run in own[:seeds]] for title, own in chosen.items()}
    best = max(
        (own for own in scored.values() if _is_full(own[0].run, most)),
        key=lambda own: statistics.fmean(each.scores[JUDGED_BY] for each in own),
    )
    entries = [
        Entry(
            title=title,
            faithful=own[0].run.faithful,
            runs=own,
            full=_is_full(own[0].run, most),
            published=rows.get(own[0].run.published or ""),
            intervals=bootstrap_intervals(over_seeds(own)),
            against_best=None if own is best or not _is_full(own[0].run, most) else _against(best, own),
            speeds=speeds.get(own[0].run.system, {}),
        )
        for title, own in scored.items()
    ]
    entries.sort(key=lambda entry: (not entry.full, -(entry.mean(JUDGED_BY) or 0.0)))
    constant = best_constant(references, source="the held-out references")
    # A run that was cut short says nothing about the order.
    fair = [entry for entry in entries if entry.faithful and entry.published is not None and entry.full]
    ours = [entry.mean(JUDGED_BY) or 0.0 for entry in fair]
    theirs = [entry.published.scores[JUDGED_BY] for entry in fair if entry.published is not None]
    floor = score_run(runs[0].saying(constant.caption), scorer)
    return Leaderboard(
        name=", ".join(folder.name for folder in folders),
        pairs=len(references),
        kinds=[kind for kind in (*CHANGE_TYPES[1:], CHANGE_TYPES[0]) if kind in runs[0].kinds.values()],
        entries=entries,
        constant=floor,
        constant_caption=constant.caption,
        rank_correlation=rank_correlation(ours, theirs),
        rank_p_value=order_test(ours, theirs),
        ranked=[entry.title for entry in fair],
        only_published=[
            row for row in rows.values() if not row.ablation and row not in [entry.published for entry in entries]
        ],
        notes=[*scorer.notes, *_notes(entries, floor), *(f"left out, too short: {name}" for name in left_out)],
    )


def score_run(run: TrainedRun, scorer: Scorer) -> Scored:
    """Standard metrics, facts in total and where nothing changed, and both by kind of change."""
    result = scorer.score(run.captions)
    scores = {name: result.corpus[name] for name in METRICS if name in result.corpus}
    summables = list(result.summables)
    if run.facts:
        facts = np.array([run.facts[name] for name in run.captions], dtype=np.float64)
        scores[FACTS] = float(facts.mean())
        summables.append(mean_of(FACTS, facts))
    by_kind: dict[str, dict[str, float]] = {}
    for kind in dict.fromkeys(run.kinds.values()):
        if kind is None:
            continue
        part = {name: text for name, text in run.captions.items() if run.kinds[name] == kind}
        by_kind[kind] = {JUDGED_BY: scorer.score(part).corpus[JUDGED_BY]}
        if run.facts:
            by_kind[kind][FACTS] = statistics.fmean(float(run.facts[name]) for name in part)
    if NONE in by_kind and FACTS in by_kind[NONE]:
        scores[NONE] = by_kind[NONE][FACTS]
    return Scored(run=run, scores=scores, by_kind=by_kind, summables=summables)


def _by_system(runs: Iterable[TrainedRun]) -> dict[str, list[TrainedRun]]:
    """Runs of every system with its better learning rate, by title, seeds in order."""
    rates: dict[str, dict[float, list[TrainedRun]]] = {}
    for run in runs:
        rates.setdefault(run.title, {}).setdefault(run.rate, []).append(run)
    chosen = {}
    for title, by_rate in rates.items():
        first = min(run.seed for own in by_rate.values() for run in own)  # which has them all
        better = max(by_rate.values(), key=lambda own: max((r.validation for r in own if r.seed == first), default=0.0))
        chosen[title] = sorted(better, key=lambda run: run.seed)
    return chosen


def _is_full(run: TrainedRun, most: int) -> bool:
    return run.pairs is None or run.pairs >= FULL * most


def _of_one_length(by_system: dict[str, list[TrainedRun]], most: int) -> tuple[dict[str, list[TrainedRun]], list[str]]:
    """Without the short runs of systems that have a full one, and what these were."""
    chosen, left_out = {}, []
    for title, runs in by_system.items():
        full = [run for run in runs if _is_full(run, most)]
        chosen[title] = full or runs
        left_out += [f"{title}, seed {run.seed} ({run.pairs:,} pairs)" for run in runs if full and run not in full]
    return chosen, left_out


def over_seeds(runs: Sequence[Scored]) -> list[Summable]:
    """Every pair's numbers, averaged over the runs; scores that are ratios of sums do not see the scale."""
    each = zip(*(run.summables for run in runs), strict=True)
    return [replace(same[0], columns=np.mean([one.columns for one in same], axis=0)) for same in each]


def _against(best: list[Scored], other: list[Scored]) -> dict[str, PairedComparison]:
    common = {each.run.seed for each in best} & {each.run.seed for each in other}
    if not common:  # then one of each
        return paired_comparison(best[0].summables, other[0].summables)
    first, second = ([each for each in own if each.run.seed in common] for own in (best, other))
    return paired_comparison(over_seeds(first), over_seeds(second))


def _speeds(folders: Sequence[Path]) -> Mapping[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for folder in folders:
        path = folder / SPEEDS
        if path.is_file():
            try:
                found |= json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise DataError(f"{path} is not valid JSON: {error}") from error
    return found


def _notes(entries: list[Entry], floor: Scored) -> list[str]:
    notes = []
    seeds = sorted({len(entry.runs) for entry in entries})
    notes.append(
        f"seeds a system: {' or '.join(map(str, seeds))}; ± is the deviation over a row's own seeds, "
        "intervals and tests are over the pairs, each with the mean of its seeds"
    )
    if any(entry.run.facts for entry in entries):
        notes.append("facts: true sentences; none: true ones of the pairs without a change")
    if not all(entry.faithful for entry in entries):
        notes.append("after NAME: rebuilt where some part had to be guessed; not in the rank correlation")
    # Whoever says a few sentences to all pairs has learnt the language and not yet the images.
    below = [f"{entry.title} ({_sentences(entry)})" for entry in entries if _is_below(entry, floor)]
    if below:
        notes.append(
            f"below the constant caption in {JUDGED_BY}, with the different sentences of each seed: {', '.join(below)}"
        )
    short = [f"{entry.title} ({entry.run.pairs:,} pairs)" for entry in entries if not entry.full]
    if short:
        notes.append(f"trained for less, so last in the tables and not compared: {', '.join(short)}")
    if any(not entry.speeds for entry in entries):
        notes.append("speeds in brackets were measured while other runs shared the device")
    return notes


def _is_below(entry: Entry, floor: Scored) -> bool:
    return (entry.mean(JUDGED_BY) or 0.0) < floor.scores[JUDGED_BY]


def _sentences(entry: Entry) -> str:
    return "/".join(f"{len(set(each.run.captions.values())):,}" for each in entry.runs)
