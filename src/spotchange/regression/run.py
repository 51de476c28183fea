"""Compares the pairs of two folders, on several cores, with the exact verdict; a model may word what changed."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotchange.cluster import ClusterOptions, Resumption
from spotchange.errors import SpotchangeError
from spotchange.images import read_image
from spotchange.regression.on_cluster import compare_on_cluster
from spotchange.regression.one_pair import DIFFERENT, STATUSES, ComparedFile, Job, Outputs, Status, compare_one
from spotchange.regression.plan import FolderPlan
from spotchange.regression.settings import CompareSettings, Tolerances
from spotchange.regression.wording import Wording, in_words
from spotchange.results import SCHEMA_VERSION

if TYPE_CHECKING:
    from spotchange.answering import Captioner
    from spotchange.answering.interface import Usage

FEW_PAIRS = 8  # not worth starting another process for


@dataclass(frozen=True, kw_only=True)
class FolderComparison:
    """All images of two folders, what needs attention first."""

    before: Path
    after: Path
    files: tuple[ComparedFile, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many images have each status."""
        found = Counter(each.status for each in self.files)
        return {status: found[status] for status in STATUSES}

    @property
    def differs(self) -> bool:
        """Whether any image is changed, missing or new."""
        return any(each.status in DIFFERENT for each in self.files)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `compare --json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "before": str(self.before),
            "after": str(self.after),
            "counts": self.counts,
            "files": [each.to_dict() for each in self.files],
        }


def compare_folders(
    plan: FolderPlan,
    *,
    settings: CompareSettings,
    given: Tolerances,
    outputs: Outputs,
    captioner: Captioner | None = None,
    workers: int | None = None,
    cluster: ClusterOptions | None = None,
    words: Wording | None = None,
    usage: Usage | None = None,
    kept: Resumption | None = None,
    finished: Callable[[ComparedFile], None] = lambda compared: None,
) -> FolderComparison:
    """Look at every image of the plan.

    Args:
        plan: from `plan_folders`.
        settings: from `spotchange.yaml`.
        given: what the command line set; wins over the settings.
        outputs: diff images and views to write on the way.
        captioner: words what the comparison called changed, here; the verdict stands.
        workers: processes; None: one per core where there is enough to do.
        cluster: workers of this cluster instead; they must see the folders.
        words: the same for the cluster: its workers load it.
        usage: what the cluster's workers spend on asking is added to it.
        kept: where the cluster's rows lie until all are there, so that a run that is killed goes on.
        finished: told of every image as it is done.
    """
    files = [ComparedFile(name=name, status="identical") for name in plan.identical]
    files += [_alone(plan.before, name, "missing", outputs) for name in plan.missing]
    files += [_alone(plan.after, name, "new", outputs) for name in plan.new]
    for each in files:
        finished(each)
    jobs = [
        Job(
            name=name,
            before=plan.before / name,
            after=plan.after / name,
            options=settings.options_for(name, given),
            outputs=outputs,
        )
        for name in plan.differing
    ]
    if cluster is None:
        results = _in_parallel(jobs, workers)
        if captioner is not None:
            results = in_words(zip(results, jobs, strict=True), captioner)
    else:
        results = compare_on_cluster(jobs, cluster, words=words, usage=usage, kept=kept)
    for compared in results:
        files.append(compared)
        finished(compared)
    files.sort(key=lambda each: (STATUSES.index(each.status), each.name))
    return FolderComparison(before=plan.before, after=plan.after, files=tuple(files))


def _in_parallel(jobs: list[Job], workers: int | None) -> Iterator[ComparedFile]:
    """In the order of the jobs. Processes, because decoding holds the interpreter's lock."""
    workers = min(workers or os.cpu_count() or 1, max(1, len(jobs) // FEW_PAIRS))
    if workers == 1:
        yield from map(compare_one, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(compare_one, jobs, chunksize=max(1, min(8, len(jobs) // (4 * workers))))


def _alone(folder: Path, name: str, status: Status, outputs: Outputs) -> ComparedFile:
    """An image without a partner; one that cannot be read is reported as such, never accepted unseen."""
    try:
        image = read_image(folder / name)
    except SpotchangeError as error:
        return ComparedFile(name=name, status="failed", error=f"{status}: {error.message}")
    view = outputs.single_view(image, status) if outputs.single_view is not None else ""
    return ComparedFile(name=name, status=status, view=view)
