"""One image of two folders: how it is compared, what becomes of it, and what is written on the way."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from spotchange.answering import ImagePair
from spotchange.answering.pixels import result_of
from spotchange.comparison import Comparison, ComparisonOptions, compare
from spotchange.errors import SpotchangeError
from spotchange.regression.diff_image import diff_path, write_diff
from spotchange.results import CaptionResult
from spotchange.storage import StorePath, is_address

if TYPE_CHECKING:
    from PIL import Image

Status = Literal["changed", "missing", "new", "failed", "unchanged", "identical"]
STATUSES: tuple[Status, ...] = ("changed", "missing", "new", "failed", "unchanged", "identical")
DIFFERENT: tuple[Status, ...] = ("changed", "missing", "new")
"""What makes two folders differ: `unchanged` images have other pixels, within the stated tolerances."""
PairView: TypeAlias = "Callable[[ImagePair, Comparison, str, Outputs], str]"
SingleView: TypeAlias = "Callable[[Image.Image, str], str]"
LAST_FILE = "diff.png"  # of the full-size images beside a report


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

    def to_line(self) -> dict[str, Any]:
        """All of it as values of JSON; a failed one is a line with an error."""
        return self.to_dict() | {"view": self.view}

    @classmethod
    def from_line(cls, line: dict[str, Any]) -> ComparedFile:
        """What `to_line` gave."""
        values = dict(line)
        name, status, error, view = (values.pop(key, None) for key in ("id", "status", "error", "view"))
        values.pop("fingerprint", None)
        result = CaptionResult.from_dict(values) if values else None
        return cls(name=name, status=status, result=result, error=error, view=view)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What is written per pair while the comparison runs."""

    diff_dir: Path | None = None
    pair_view: PairView | None = None  # HTML of a differing pair, for a report
    single_view: SingleView | None = None  # HTML of an image without a partner
    files_dir: Path | None = None  # full-size images beside the report
    link: str = ""  # how the report addresses that folder

    def files_of(self, name: str) -> str:
        """The folder of a pair's full-size images within `files_dir`."""
        return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    def written(self, name: str) -> list[Path]:
        """What a differing pair leaves, as far as its presence tells that all is there."""
        files = [] if self.diff_dir is None else [diff_path(self.diff_dir / name)]
        return files if self.files_dir is None else [*files, self.files_dir / self.files_of(name) / LAST_FILE]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A pair of files and how it is compared."""

    name: str
    before: Path
    after: Path
    options: ComparisonOptions
    outputs: Outputs


def compare_one(job: Job) -> ComparedFile:
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


def _same_content(job: Job) -> bool:
    try:
        return job.before.read_bytes() == job.after.read_bytes()
    except OSError:
        return False


def _view(job: Job, found: Comparison, status: Status) -> str:
    if job.outputs.pair_view is None or status == "identical":
        return ""
    return job.outputs.pair_view(ImagePair.of(job.before, job.after), found, job.name, job.outputs)
