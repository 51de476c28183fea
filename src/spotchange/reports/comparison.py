"""Two folders of pictures, the way visual-regression users have them: what is new, missing, identical, changed."""

from __future__ import annotations

import filecmp
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from spotchange.answering import Answer, Captioner, CaptionOptions
from spotchange.answering.batch import pictures_in
from spotchange.errors import InputError, SpotchangeError
from spotchange.files import write_bytes
from spotchange.images import read_image
from spotchange.reports.pair_view import pair_view, single_view
from spotchange.results import SCHEMA_VERSION, CaptionResult

Status = Literal["changed", "missing", "new", "failed", "unchanged", "identical"]
STATUSES: tuple[Status, ...] = ("changed", "missing", "new", "failed", "unchanged", "identical")
DIFFERENT: tuple[Status, ...] = ("changed", "missing", "new")
"""What makes two folders differ: `unchanged` pictures have other pixels but show the same."""


@dataclass(frozen=True, kw_only=True)
class FolderPlan:
    """Which pictures stand where, before any is decoded."""

    before: Path
    after: Path
    missing: tuple[str, ...]  # only in before
    new: tuple[str, ...]  # only in after
    identical: tuple[str, ...]  # the same bytes in both
    differing: tuple[str, ...]  # in both, with other bytes: the model has to look


@dataclass(frozen=True, kw_only=True)
class ComparedFile:
    """What became of one picture."""

    name: str
    status: Status
    result: CaptionResult | None = None
    error: str | None = None
    view: str = field(default="", repr=False)  # HTML to look at, where a report was asked for

    def to_dict(self) -> dict[str, Any]:
        """The caption result with `id` and `status`, or `id`, `status` and `error`."""
        told = {} if self.result is None else self.result.to_dict()
        return {"id": self.name, "status": self.status, **told, **({"error": self.error} if self.error else {})}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All pictures of two folders, what needs attention first."""

    before: Path
    after: Path
    files: tuple[ComparedFile, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many pictures have each status."""
        found = Counter(each.status for each in self.files)
        return {status: found[status] for status in STATUSES}

    @property
    def differs(self) -> bool:
        """Whether any picture is changed, missing or new."""
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


def plan_comparison(before: Path, after: Path) -> FolderPlan:
    """List both folders; the model is needed only where bytes differ."""
    for folder in (before, after):
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder")
    first, second = before.resolve(), after.resolve()
    if first == second or first in second.parents or second in first.parents:
        raise InputError(f"{before} and {after} must be two folders, neither inside the other")
    there, here = pictures_in(before), pictures_in(after)
    if not there | here:
        raise InputError(f"there is no picture in {before} or {after}")
    both = sorted(there & here)
    same = {name for name in both if _same_bytes(before / name, after / name)}
    return FolderPlan(
        before=before,
        after=after,
        missing=tuple(sorted(there - here)),
        new=tuple(sorted(here - there)),
        identical=tuple(name for name in both if name in same),
        differing=tuple(name for name in both if name not in same),
    )


def compare_folders(
    captioner: Captioner | None,
    plan: FolderPlan,
    *,
    options: CaptionOptions,
    batch_size: int,
    views: bool,
    advance: Callable[[int], None] = lambda files: None,
) -> Comparison:
    """Look at every picture of the plan.

    Args:
        captioner: may be None when no picture differs.
        plan: from `plan_comparison`.
        options: how to caption; `ignore` is in pixels of the before pictures.
        batch_size: pairs computed together.
        views: make the HTML a report shows of each picture.
        advance: told how many pictures were finished, as they are.
    """
    files = [ComparedFile(name=name, status="identical") for name in plan.identical]
    files += [_alone(plan.before, name, "missing", views) for name in plan.missing]
    files += [_alone(plan.after, name, "new", views) for name in plan.new]
    advance(len(files))
    for compared in _look(captioner, plan, options, batch_size, views) if captioner else ():
        files.append(compared)
        advance(1)
    files.sort(key=lambda each: (STATUSES.index(each.status), each.name))
    return Comparison(before=plan.before, after=plan.after, files=tuple(files))


def check_deletions(plan: FolderPlan) -> None:
    """Refuse to empty a baseline: pictures that were not made this time (a failed job) look like removed ones."""
    kept = len(plan.identical) + len(plan.differing)
    if len(plan.missing) > kept:
        raise InputError(
            f"updating would delete {len(plan.missing)} pictures of {plan.before} and keep {kept}",
            hint=f"is {plan.after} complete? --allow-delete deletes them",
        )


def update_baseline(comparison: Comparison) -> int:
    """Make the before folder show what after shows: copy changed and new pictures, remove missing ones.

    Returns:
        How many files were copied or removed; pictures that failed or look the same are left alone.
    """
    accepted = [each for each in comparison.files if each.status in DIFFERENT]
    for each in accepted:
        kept, current = comparison.before / each.name, comparison.after / each.name
        try:
            if each.status == "missing":
                kept.unlink()
            else:
                write_bytes(kept, current.read_bytes())
        except OSError as error:
            raise InputError(f"cannot update {kept}: {error.strerror or error}") from error
    return len(accepted)


def _look(
    captioner: Captioner, plan: FolderPlan, options: CaptionOptions, batch_size: int, views: bool
) -> Iterator[ComparedFile]:
    pairs = [(plan.before / name, plan.after / name) for name in plan.differing]
    answers = captioner.answer_many(pairs, options=options, batch_size=batch_size, keep_errors=True)
    for name, answer in zip(plan.differing, answers, strict=True):
        if isinstance(answer, SpotchangeError):
            yield ComparedFile(name=name, status="failed", error=answer.message)
        else:
            status = _status(answer)
            view = pair_view(answer) if views and status != "identical" else ""
            yield ComparedFile(name=name, status=status, result=answer.result, view=view)


def _status(answer: Answer) -> Status:
    if answer.result.changed:
        return "changed"
    return "identical" if answer.pair.identical else "unchanged"


def _alone(folder: Path, name: str, status: Status, views: bool) -> ComparedFile:
    """A picture without a partner; one that cannot be read is reported as such, never accepted unseen."""
    try:
        picture = read_image(folder / name)
    except SpotchangeError as error:
        return ComparedFile(name=name, status="failed", error=f"{status}: {error.message}")
    return ComparedFile(name=name, status=status, view=single_view(picture, status) if views else "")


def _same_bytes(first: Path, second: Path) -> bool:
    try:
        return filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False  # reading the picture will say what is wrong with it
