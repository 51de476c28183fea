"""Running an ablation: every cell and seed once, resumable at any step, and the table of what came out."""

from __future__ import annotations

import copy
import gc
import json
import math
import os
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from spotchange.config.ablation import PREVIOUS, Ablation
from spotchange.config.base import apply_override
from spotchange.config.training import Recipe
from spotchange.errors import ConfigError
from spotchange.files import load_json, recover_folder, write_text
from spotchange.locks import one_writer
from spotchange.metrics.significance import rank_correlation
from spotchange.models.weights.description import BEST, LAST
from spotchange.training.ablation.paired import PairedTest, paired_test
from spotchange.training.log import read_log
from spotchange.training.stopping import StopRequest
from spotchange.training.validation import less_is_better

SUMMARY = "summary.json"
SHARED = "shared"
RunStage = Callable[..., dict[str, Any] | None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One stage of one cell with one seed."""

    chain: str
    """Cell and seed, or "shared": jobs of one chain run one after the other."""
    label: str
    recipe: Recipe
    out: Path

    @property
    def summary(self) -> dict[str, Any] | None:
        """Where the finished run ended; None if it is not finished."""
        path = self.out / SUMMARY
        return load_json(path.read_text(encoding="utf-8")) if path.is_file() else None

    @property
    def without_weights(self) -> bool:
        """Whether only figures are left of a run that ended, as in the archives that git tracks."""
        return (self.out / BEST / "recipe.yaml").is_file() and not (self.out / BEST / "config.json").is_file()


@dataclass(kw_only=True)
class CellResult:
    """What one cell reached: a value for every seed, by column."""

    cell: str
    changes: dict[str, Any]
    by_seed: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, list[float]]:
        """Without the seeds' names."""
        return {column: list(found.values()) for column, found in self.by_seed.items()}

    def mean(self, column: str) -> float | None:
        """Over the seeds."""
        return statistics.fmean(self.values[column]) if self.values.get(column) else None

    def spread(self, column: str) -> float | None:
        """Sample standard deviation over the seeds; None for a single one."""
        found = self.values.get(column, [])
        return statistics.stdev(found) if len(found) > 1 else None


def plan(ablation: Ablation, out: Path) -> list[Job]:
    """Every stage to run, in order; the shared one first, once.

    Seed by seed: a table that is cut short then has all its cells with fewer seeds, which paired tests can use. Cells
    that choose between settings have only their first seed in it until all values were tried: plan again then.
    """
    jobs = []
    if ablation.shared is not None:
        jobs.append(_job(ablation, ablation.shared, {}, ablation.seeds[0], None, out / SHARED, SHARED))
    for seeds in zip_longest(*(ablation.seeds_of(cell) for cell in ablation.cells)):
        for cell, seed in zip(ablation.cells, seeds, strict=True):
            for changes in [] if seed is None else _wanted(ablation, cell, seed, out):
                jobs += _chain(ablation, cell, changes, seed, out)
    return jobs


def check_budget(ablation: Ablation, jobs: list[Job]) -> None:
    """Refuse a table whose cells would see different numbers of pairs, unless it says that this is meant."""
    pairs: Counter[str] = Counter()
    for job in jobs:
        if job.chain != SHARED:
            pairs[job.chain] += job.recipe.stage.steps * job.recipe.stage.pairs_per_step
    if ablation.equal_budget and len(set(pairs.values())) > 1:
        (most, many), *_, (least, few) = pairs.most_common()
        raise ConfigError(
            f"cells would see different numbers of pairs: {many:,} ({most}) and {few:,} ({least})",
            hint="give their stages equal steps and pairs_per_step, or set equal_budget to false",
        )


def _wanted(ablation: Ablation, cell: str, seed: int, out: Path) -> list[dict[str, Any]]:
    """What a seed of a cell is run with: every value that is tried on the first seed, the chosen ones on the others."""
    if seed == ablation.seeds_of(cell)[0]:
        return _tried(ablation, cell)
    chosen = choose(ablation, cell, out)
    return [] if chosen is None else [chosen]


def _tried(ablation: Ablation, cell: str) -> list[dict[str, Any]]:
    settings = ablation.cells[cell].choose
    return [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]


def choose(ablation: Ablation, cell: str, out: Path) -> dict[str, Any] | None:
    """Of the values that the first seed tried those that validated best; None while some are not finished."""
    tried = _tried(ablation, cell)
    if len(tried) == 1:
        return tried[0]
    reached = []
    for changes in tried:
        *_, last = _chain(ablation, cell, changes, ablation.seeds_of(cell)[0], out)
        summary = last.summary
        if summary is None:
            return None
        reached.append(-summary["best"] if less_is_better(summary["metric"]) else summary["best"])
    return tried[reached.index(max(reached))]


def run_jobs(jobs: list[Job], run_stage: RunStage, *, stop: StopRequest, device: str) -> bool:
    """Run what is not finished; false if `stop` ended it early."""
    for job in _left(jobs):
        if stop.wanted(0):
            return False
        gc.collect()  # a trainer and its closures hold each other, and their weights
        with _own_folder(job) as resume:
            summary = run_stage(job.recipe, out=job.out, resume=resume, stop=stop, device=device)
            if summary is None:  # not the first process; it hears of the end through the same stop
                continue
            if not summary["finished"]:
                return False
            write_text(job.out / SUMMARY, json.dumps(summary, indent=2) + "\n")
            shutil.rmtree(job.out / LAST, ignore_errors=True)  # nothing goes on from it; tables of many runs fill disks
    return True


@contextmanager
def _own_folder(job: Job) -> Iterator[bool]:
    """A run's folder, for it alone; whether it goes on there. What cannot go on (killed before it saved) goes away."""
    recover_folder(job.out / LAST)
    with ExitStack() as stack:
        if os.environ.get("RANK", "0") == "0":  # the first of several processes that train one model
            stack.enter_context(one_writer(job.out))
            if job.summary is not None or not (job.out / LAST).exists():
                shutil.rmtree(job.out, ignore_errors=True)
        yield (job.out / LAST).exists()


def _left(jobs: list[Job]) -> list[Job]:
    """What is not finished, and stages before it that are, but of which no weights were kept to go on from."""
    left: list[Job] = []
    after: Job | None = None
    for job in reversed(jobs):
        goes_on = left and left[-1] is after and job.chain == left[-1].chain
        if job.summary is None or (goes_on and job.without_weights):
            left.append(job)
        after = job
    return left[::-1]


def collect(ablation: Ablation, out: Path) -> list[CellResult]:
    """Numbers of the best checkpoints, on the test pairs or on validation, from the logs that the runs left."""
    rows = []
    for cell, settings in ablation.cells.items():
        chosen = choose(ablation, cell, out) or _tried(ablation, cell)[0]
        row = CellResult(cell=cell, changes=settings.changes | chosen)
        for seed in ablation.seeds_of(cell):
            found: dict[str, float] = {}
            for job in _chain(ablation, cell, chosen, seed, out):
                found |= _best_numbers(job)
            for column in ablation.columns:
                if column in found:
                    row.by_seed.setdefault(column, {})[seed] = found[column]
        rows.append(row)
    return rows


def columns_agree(rows: list[CellResult], columns: tuple[str, str]) -> float | None:
    """Spearman's rho of two columns over the cells that have both; None where it is not defined."""
    pairs = [(row.mean(columns[0]), row.mean(columns[1])) for row in rows]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    return rank_correlation([a for a, _ in both], [b for _, b in both])


def _chain(ablation: Ablation, cell: str, chosen: dict[str, Any], seed: int, out: Path) -> Iterator[Job]:
    name = ", ".join([cell, *(f"{key} {value}" for key, value in chosen.items())])
    previous = None if ablation.start is None else Path(ablation.start)
    if ablation.shared is not None:
        previous = out / SHARED / BEST
    for stage in ablation.cells[cell].stages:
        folder = out / "cells" / _file_name(name) / f"seed-{seed}" / stage
        yield _job(ablation, stage, ablation.cells[cell].changes | chosen, seed, previous, folder, name)
        previous = folder / BEST


def _job(
    ablation: Ablation,
    stage: str,
    changes: dict[str, Any],
    seed: int,
    previous: Path | None,
    out: Path,
    cell: str,
) -> Job:
    values = copy.deepcopy(ablation.stages[stage])
    values.setdefault("name", f"{ablation.name}-{stage}")
    values["seed"] = seed
    for key, value in changes.items():
        first, _, rest = key.partition(".")
        if first in ablation.stages:  # meant for one stage only
            if first != stage:
                continue
            key = rest
        apply_override(values, f"{key}={json.dumps(value)}")
    where = values.get("stage", {})
    if where.get("start_from") == PREVIOUS:
        where["start_from"] = None if previous is None else str(previous)
    return Job(
        chain=SHARED if cell == SHARED else f"{cell}, seed {seed}",
        label=f"{cell}, {stage}, seed {seed}",
        recipe=Recipe.from_mapping(values, source=cell),
        out=out,
    )


def _best_numbers(job: Job) -> dict[str, float]:
    summary = job.summary
    if summary is None:
        return {}
    lines = read_log(job.out / "log.jsonl")
    chosen = [line for line in lines if line["kind"] == "test"] or [
        line for line in lines if line["kind"] == "validation" and line["step"] == summary["best_step"]
    ]
    return {name: value for name, value in chosen[-1].items() if isinstance(value, float)} if chosen else {}


def comparisons(ablation: Ablation, rows: list[CellResult]) -> dict[tuple[str, str], dict[str, PairedTest]]:
    """The paired tests that the ablation asks for, by cells and column."""
    by_cell = {row.cell: row for row in rows}
    found: dict[tuple[str, str], dict[str, PairedTest]] = {}
    for first, second in ablation.compare:
        for column in ablation.columns:
            sides = [by_cell[cell].by_seed.get(column, {}) for cell in (first, second)]
            test = paired_test(*sides)
            if test is not None:
                found.setdefault((first, second), {})[column] = test
    return found


def _file_name(cell: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in cell)


def as_json(ablation: Ablation, rows: list[CellResult]) -> dict[str, Any]:
    """The table as plain values."""
    cells = [
        {
            "cell": row.cell,
            "changes": row.changes,
            "seeds": {column: row.values.get(column, []) for column in ablation.columns},
            "by_seed": row.by_seed,
            "mean": {column: row.mean(column) for column in ablation.columns},
            "spread": {column: row.spread(column) for column in ablation.columns},
        }
        for row in rows
    ]
    rho = columns_agree(rows, ablation.correlate) if ablation.correlate else None
    finite = None if rho is None or math.isnan(rho) else rho
    tests = [
        {"first": first, "second": second, "columns": {column: asdict(test) for column, test in columns.items()}}
        for (first, second), columns in comparisons(ablation, rows).items()
    ]
    return {
        "name": ablation.name,
        "seeds": ablation.seeds,
        "cells": cells,
        "comparisons": tests,
        "rank_correlation": finite,
    }
