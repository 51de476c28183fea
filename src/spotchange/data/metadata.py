"""Rows of a data set on disk: `DIR/{train,val,test}/metadata.jsonl`, one pair of images a line.

This is the Hugging Face `imagefolder` convention with two images a row, so
`datasets.load_dataset("imagefolder", data_dir=DIR)` reads the same folder (as columns `before` and `after`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spotchange.errors import DataError
from spotchange.files import atomic_path
from spotchange.pairs import PixelBox, Row, parse_row
from spotchange.storage import as_place

__all__ = [
    "METADATA",
    "SPLITS",
    "PixelBox",
    "Row",
    "RowProblem",
    "RowReader",
    "list_splits",
    "parse_row",
    "read_manifest",
    "read_rows",
    "split_file",
    "write_rows",
]

logger = logging.getLogger(__name__)

SPLITS = ("train", "val", "test")
WORDLESS = "wordless.jsonl"  # beside it: pairs of the published split that nobody wrote a sentence for
METADATA = "metadata.jsonl"


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A line that is no row, and why."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class RowReader:
    """Streams the rows of one file, checking each; memory does not grow with the file.

    Without `skip_bad` the first bad line raises. With it, bad lines go to `on_problem` (default: the log)
    and are counted in `bad`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        skip_bad: bool = False,
        check_files: bool = True,
        captions_needed: bool = True,
        on_problem: Callable[[RowProblem], None] | None = None,
    ) -> None:
        self.path = as_place(path)
        self.bad = 0
        self._skip_bad = skip_bad
        self._check_files = check_files
        self._captions_needed = captions_needed
        self._on_problem = on_problem or (lambda problem: logger.warning("%s (skipped)", problem))
        try:
            if not self.path.is_file():
                absent = not self.path.exists()
                raise DataError(f"{self.path} does not exist" if absent else f"{self.path} is not a file")
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}") from error

    def __iter__(self) -> Iterator[Row]:
        self.bad = 0
        folder = self.path.parent
        try:
            # Bytes, so that one badly encoded line is one bad row and not the end of the file.
            with self.path.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if not line.strip():
                        continue
                    try:
                        row = parse_row(line, folder, captions_needed=self._captions_needed)
                        if self._check_files:
                            _check_files_exist(row)
                    except DataError as error:
                        problem = RowProblem(self.path, number, error.message)
                        if not self._skip_bad:
                            raise DataError(str(problem), hint="`spotchange data check` lists all such rows") from error
                        self.bad += 1
                        self._on_problem(problem)
                    else:
                        yield row
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror or error}") from error


def read_rows(
    data_dir: str | os.PathLike[str],
    split: str,
    *,
    skip_bad: bool = False,
    check_files: bool = True,
    on_problem: Callable[[RowProblem], None] | None = None,
) -> RowReader:
    """The rows of one split of a data set, streamed and checked (see `RowReader`)."""
    return RowReader(split_file(data_dir, split), skip_bad=skip_bad, check_files=check_files, on_problem=on_problem)


def read_manifest(
    path: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
    check_files: bool = False,
    on_problem: Callable[[RowProblem], None] | None = None,
) -> RowReader:
    """Pairs to caption: any JSON-lines file of rows, wherever it lies, captions not needed."""
    return RowReader(path, skip_bad=skip_bad, check_files=check_files, captions_needed=False, on_problem=on_problem)


def split_file(data_dir: str | os.PathLike[str], split: str) -> Path:
    """Where the rows of a split lie; the error names the splits there are."""
    path = as_place(data_dir) / split / METADATA
    if not path.is_file():
        found = list_splits(data_dir)
        hint = f"splits there: {', '.join(found)}" if found else f"a data set is DIR/{{{','.join(SPLITS)}}}/{METADATA}"
        raise DataError(f"{data_dir} has no split '{split}' ({path} does not exist)", hint=hint)
    return path


def list_splits(data_dir: str | os.PathLike[str]) -> list[str]:
    """Splits of a data set, the usual ones first."""
    folder = as_place(data_dir)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist")
    found = {path.parent.name for path in folder.glob(f"*/{METADATA}")}
    return [split for split in SPLITS if split in found] + sorted(found.difference(SPLITS))


def write_rows(path: str | os.PathLike[str], rows: Iterable[Row]) -> int:
    """Write `rows` to a metadata file, all or nothing; returns how many."""
    count = 0
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as lines:
        for row in rows:
            lines.write(json.dumps(row.to_dict(), ensure_ascii=False) + "\n")
            count += 1
    return count


def _check_files_exist(row: Row) -> None:
    for path in (row.before_path, row.after_path, row.mask_path):
        if path is not None and not path.is_file():
            raise DataError(f"row {row.id!r}: {path} does not exist")


def numbered_classes(path: str | os.PathLike[str], split: str) -> list[int]:
    """Every row's class; numbers from 0 on, whatever the set calls its classes."""
    found = [row.extra.get("class_id") for row in read_rows(path, split, check_files=False)]
    named = [each for each in found if isinstance(each, int)]
    if len(named) < len(found):
        raise DataError(f"{path} has rows without a column class_id", hint="it cannot serve for classes")
    known = {each: number for number, each in enumerate(sorted(set(named)))}
    return [known[each] for each in named]
