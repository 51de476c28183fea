"""Compares the pairs of two folders, on several cores, with the exact verdict; a model may word what changed."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from spotchange.answering import Answer, CaptionOptions, ImagePair
from spotchange.answering.pixels import result_of
from spotchange.cluster import ClusterOptions, in_order, pieces, run_on_ray
from spotchange.comparison import Comparison, ComparisonOptions, compare
from spotchange.errors import SpotchangeError
from spotchange.images import read_image
from spotchange.regression.diff_image import write_diff
from spotchange.regression.plan import FolderPlan
from spotchange.regression.settings import CompareSettings, Tolerances
from spotchange.results import SCHEMA_VERSION, CaptionResult
from spotchange.storage import StorePath, is_address

if TYPE_CHECKING:
    from PIL import Image

    from spotchange.answering import Captioner

Status = Literal["changed", "missing", "new", "failed", "unchanged", "identical"]
STATUSES: tuple[Status, ...] = ("changed", "missing", "new", "failed", "unchanged", "identical")
DIFFERENT: tuple[Status, ...] = ("changed", "missing", "new")
"""What makes two folders differ: `unchanged` images have other pixels, within the stated tolerances."""
PairView: TypeAlias = "Callable[[ImagePair, Comparison, str, Outputs], str]"
SingleView: TypeAlias = "Callable[[Image.Image, str], str]"
WORDED_TOGETHER = 16  # pairs that a model is shown at a time
FEW_PAIRS = 8  # not worth starting another process for


@dataclass(frozen=True, kw_only=True)
class ComparedFile:
    """What became of one image."""

    name: str
    status: Status
    result: CaptionResult | None = None
    error: str | None = None
    view: str = field(default="", repr=False)  # HTML to look at, where a report was asked for

    def to_dict(self) -> dict[str, Any]:
        """The caption result with `id` and `status`, or `id`, `status` and `error`."""
        values = {} if self.result is None else self.result.to_dict()
        return {"id": self.name, "status": self.status, **values, **({"error": self.error} if self.error else {})}


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


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What is written per pair while the comparison runs."""

    diff_dir: Path | None = None
    pair_view: PairView | None = None  # HTML of a differing pair, for a report
    single_view: SingleView | None = None  # HTML of an image without a partner
    files_dir: Path | None = None  # full-size images beside the report
    link: str = ""  # how the report addresses that folder


@dataclass(frozen=True, kw_only=True)
class _Job:
    name: str
    before: Path
    after: Path
    options: ComparisonOptions
    outputs: Outputs


def compare_folders(
    plan: FolderPlan,
    *,
    settings: CompareSettings,
    given: Tolerances,
    outputs: Outputs,
    captioner: Captioner | None = None,
    workers: int | None = None,
    cluster: ClusterOptions | None = None,
    finished: Callable[[ComparedFile], None] = lambda compared: None,
) -> FolderComparison:
    """Look at every image of the plan.

    Args:
        plan: from `plan_folders`.
        settings: from `spotchange.yaml`.
        given: what the command line set; wins over the settings.
        outputs: diff images and views to write on the way.
        captioner: words what the comparison called changed; the verdict stands.
        workers: processes; None: one per core where there is enough to do.
        cluster: workers of this cluster instead; they must see the folders.
        finished: told of every image as it is done.
    """
    files = [ComparedFile(name=name, status="identical") for name in plan.identical]
    files += [_alone(plan.before, name, "missing", outputs) for name in plan.missing]
    files += [_alone(plan.after, name, "new", outputs) for name in plan.new]
    for each in files:
        finished(each)
    jobs = [
        _Job(
            name=name,
            before=plan.before / name,
            after=plan.after / name,
            options=settings.options_for(name, given),
            outputs=outputs,
        )
        for name in plan.differing
    ]
    results = _in_parallel(jobs, workers) if cluster is None else _on_cluster(jobs, cluster)
    for compared in _in_words(results, plan, captioner) if captioner else results:
        files.append(compared)
        finished(compared)
    files.sort(key=lambda each: (STATUSES.index(each.status), each.name))
    return FolderComparison(before=plan.before, after=plan.after, files=tuple(files))


def _in_parallel(jobs: list[_Job], workers: int | None) -> Iterator[ComparedFile]:
    """In the order of the jobs. Processes, because decoding holds the interpreter's lock."""
    workers = min(workers or os.cpu_count() or 1, max(1, len(jobs) // FEW_PAIRS))
    if workers == 1:
        yield from map(_compare_one, jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_compare_one, jobs, chunksize=max(1, min(8, len(jobs) // (4 * workers))))


def _on_cluster(jobs: list[_Job], cluster: ClusterOptions) -> Iterator[ComparedFile]:
    cut = dict(enumerate(pieces(jobs, FEW_PAIRS)))
    for compared in in_order(run_on_ray(_CompareWork(), cut, cluster)) if jobs else ():
        yield from compared


class _CompareWork:
    """Pairs of files to what became of them, in a worker of a cluster."""

    def start(self) -> Callable[[Sequence[_Job]], Iterator[ComparedFile]]:
        return lambda jobs: map(_compare_one, jobs)

    def failed(self, item: _Job, reason: str) -> ComparedFile:
        return ComparedFile(name=item.name, status="failed", error=reason)


def _compare_one(job: _Job) -> ComparedFile:
    started = time.perf_counter()
    try:
        if is_address(job.before) or is_address(job.after):
            job = replace(job, before=_read_once(job.before), after=_read_once(job.after))
            if _same_content(job):
                return ComparedFile(name=job.name, status="identical")
        found = compare(job.before, job.after, job.options)
        if job.outputs.diff_dir is not None and not found.identical:
            write_diff(job.outputs.diff_dir / job.name, job.before, found)
    except SpotchangeError as error:
        return ComparedFile(name=job.name, status="failed", error=error.message)
    result = result_of(found, seconds=round(time.perf_counter() - started, 4))
    status: Status = "changed" if found.changed else "identical" if found.identical else "unchanged"
    return ComparedFile(name=job.name, status=status, result=result, view=_view(job, found, status))


def _read_once(path: Path) -> Path:
    """A file of a store with its content: the comparison, the diff image and the report all look at it."""
    try:
        return cast("Path", path.fetched()) if isinstance(path, StorePath) else path
    except OSError:
        return path  # the comparison says what is wrong with it


def _same_content(job: _Job) -> bool:
    try:
        return job.before.read_bytes() == job.after.read_bytes()
    except OSError:
        return False


def _view(job: _Job, found: Comparison, status: Status) -> str:
    if job.outputs.pair_view is None or status == "identical":
        return ""
    return job.outputs.pair_view(ImagePair.of(job.before, job.after), found, job.name, job.outputs)


def _in_words(results: Iterator[ComparedFile], plan: FolderPlan, captioner: Captioner) -> Iterator[ComparedFile]:
    """The model's sentences for what the comparison called changed, some pairs at a time, in order."""
    while part := list(islice(results, WORDED_TOGETHER)):
        changed = [each for each in part if each.status == "changed"]
        pairs = [(plan.before / each.name, plan.after / each.name) for each in changed]
        answers = captioner.answer_many(pairs, options=CaptionOptions(), batch_size=WORDED_TOGETHER, keep_errors=True)
        worded = {each.name: _worded(each, answer) for each, answer in zip(changed, answers, strict=True)}
        yield from (worded.get(each.name, each) for each in part)


def _worded(compared: ComparedFile, answer: Answer | SpotchangeError) -> ComparedFile:
    """The model's sentence, if the model sees a change too; the verdict stands, and so does the comparison's sentence
    where the model has none."""
    assert compared.result is not None
    if isinstance(answer, SpotchangeError):
        warning = f"the model did not word this: {answer.message}"
        return replace(compared, result=replace(compared.result, warnings=(*compared.result.warnings, warning)))
    worded = answer.result
    if not worded.changed or worded.source == "pixels":
        return compared
    result = replace(
        compared.result,
        caption=worded.caption,
        alternatives=worded.alternatives,
        differences=worded.differences,
        change_type=worded.change_type or compared.result.change_type,
        familiarity=worded.familiarity,
        source=worded.source,
        model=worded.model,
        warnings=(*compared.result.warnings, *worded.warnings),
        seconds=round(compared.result.seconds + worded.seconds, 4),
    )
    return replace(compared, result=result)


def _alone(folder: Path, name: str, status: Status, outputs: Outputs) -> ComparedFile:
    """An image without a partner; one that cannot be read is reported as such, never accepted unseen."""
    try:
        image = read_image(folder / name)
    except SpotchangeError as error:
        return ComparedFile(name=name, status="failed", error=f"{status}: {error.message}")
    view = outputs.single_view(image, status) if outputs.single_view is not None else ""
    return ComparedFile(name=name, status=status, view=view)
