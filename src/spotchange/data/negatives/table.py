"""Hard negatives for all captions of a feature folder: written once, by all cores, and kept beside the features."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from spotchange.data.caches.features import FeatureRow
from spotchange.data.negatives.falsehood import is_false_of_image
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.errors import DataError
from spotchange.files import load_json, write_text

_ROWS_A_TASK = 256
_writer: NegativeWriter | None = None  # of this worker process


def stored_negatives(
    folder: Path,
    rows: Sequence[FeatureRow],
    counts: tuple[int, int, int],
    *,
    denials: bool = False,
    workers: int | None = None,
) -> list[list[str]]:
    """Negatives of every caption, in the order of rows and captions; `workers` defaults to the cores there are."""
    kind = "-denials" if denials else ""
    path = folder / f"hard_negatives-{'-'.join(map(str, counts))}{kind}.json"
    if path.is_file():
        try:
            kept: list[list[str]] = load_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is damaged: {error}", hint="delete it") from error
        if len(kept) == sum(len(row.captions) for row in rows):
            return kept
    found = write_negatives(rows, counts, denials=denials, workers=workers)
    write_text(path, json.dumps(found, ensure_ascii=False))
    return found


def write_negatives(
    rows: Sequence[FeatureRow], counts: tuple[int, int, int], *, denials: bool = False, workers: int | None = None
) -> list[list[str]]:
    """As `stored_negatives`, without a file."""
    captions = [caption for row in rows for caption in row.captions]
    parts = [rows[first : first + _ROWS_A_TASK] for first in range(0, len(rows), _ROWS_A_TASK)]
    workers = min(workers or os.cpu_count() or 1, len(parts))
    if workers == 1:
        writer = NegativeWriter(captions, counts=counts, denials=denials)
        return [found for part in parts for found in _of_rows(writer, part)]
    # Fresh processes: forking one that has used a GPU or threads is not safe.
    begin = (captions, counts, denials)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin, initargs=begin) as pool:
        return [found for part in pool.map(_of_part, parts) for found in part]


def _begin(captions: list[str], counts: tuple[int, int, int], denials: bool) -> None:
    global _writer
    _writer = NegativeWriter(captions, counts=counts, denials=denials)


def _of_part(rows: Sequence[FeatureRow]) -> list[list[str]]:
    assert _writer is not None
    return _of_rows(_writer, rows)


def _of_rows(writer: NegativeWriter, rows: Sequence[FeatureRow]) -> list[list[str]]:
    found = []
    for row in rows:
        false = partial(is_false_of_image, things=row.things) if row.things else None
        found += [writer.write(caption, truths=row.captions, seed=row.after, false=false) for caption in row.captions]
    return found
