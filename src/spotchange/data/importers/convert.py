"""From a published layout to a data set: images linked or copied, never re-encoded; all of it or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from spotchange.data.folders import new_data_set, place_image, refuse_used_folder
from spotchange.data.importers.base import Problems, SourcePair
from spotchange.data.importers.catalog import get_importer
from spotchange.data.metadata import METADATA, WORDLESS, Row, write_rows
from spotchange.errors import DataError, ImageError
from spotchange.images import image_size, read_image


@dataclass
class ImportReport:
    """What was imported."""

    name: str
    out: str
    counts: dict[str, int] = field(default_factory=dict)
    published: dict[str, int] | None = None
    problems: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool | None:
        """Whether the counts are those of the whole published set; None where these are not known."""
        return None if self.published is None else self.counts == self.published


def import_dataset(
    name: str,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    copy: bool = False,
    skip_bad: bool = False,
    decode: bool = False,
    on_problem: Callable[[str], None] | None = None,
    advance: Callable[[int], None] | None = None,
) -> ImportReport:
    """Import a data set; nothing is written unless all of it is sound, or `skip_bad` allows to leave out the rest.

    Args:
        name: Of an importer, see `catalog`.
        source: Folder as its publisher lays it out.
        out: Folder of the new data set; must not hold anything yet.
        copy: Copy the images instead of linking to them.
        skip_bad: Leave out pairs and files with problems, and count them.
        decode: Decode every image to find corrupt ones; otherwise only headers are read.
        on_problem: Called with every problem as one line.
        advance: Called with 1 for every pair looked at.
    """
    importer = get_importer(name)
    source, out = Path(source).absolute(), Path(out)
    if not source.is_dir():
        raise DataError(f"{source} is not a folder" if source.exists() else f"{source} does not exist")
    refuse_used_folder(out)
    problems = Problems(on_problem)
    images = _ImageCheck(source, decode)
    splits: dict[str, dict[str, SourcePair]] = {}
    for pair in importer.read_pairs(source, problems):
        found = splits.setdefault(pair.split, {})
        reason = f"there is another pair '{pair.id}'" if pair.id in found else images.reason_against(pair)
        if reason is None:
            found[pair.id] = pair
        else:
            problems.add(f"pair {pair.id} ({pair.split})", reason)
        if advance is not None:
            advance(1)
    if problems.count and not skip_bad:
        raise DataError(
            f"{source} has {problems.count:,} problems, nothing was imported",
            hint="repair the source, or leave out what is bad with --skip-bad",
        )
    splits = {split: pairs for split, pairs in splits.items() if any(pair.captions for pair in pairs.values())}
    if not splits:
        raise DataError(f"{source} holds no usable pair of {importer.title}", hint=f"expected: {importer.layout}")
    _write(splits, source, out, copy=copy)
    return ImportReport(
        name=importer.name,
        out=str(out),
        counts={split: sum(bool(pair.captions) for pair in pairs.values()) for split, pairs in splits.items()},
        published=importer.counts,
        problems=problems.count,
        notes=problems.notes,
    )


class _ImageCheck:
    """Looks at every image once, however many pairs show it."""

    def __init__(self, source: Path, decode: bool) -> None:
        self._source, self._decode = source, decode
        self._known: dict[Path, str | None] = {}

    def reason_against(self, pair: SourcePair) -> str | None:
        for path in (pair.before, pair.after, pair.mask):
            if path is not None:
                if path not in self._known:
                    self._known[path] = self._look_at(path)
                if self._known[path] is not None:
                    return self._known[path]
        return None

    def _look_at(self, path: Path) -> str | None:
        if not path.is_relative_to(self._source) or ".." in path.parts:
            return f"{path} leaves the source folder"  # a name from an annotation file must not reach anywhere else
        try:
            if self._decode:
                read_image(path)
            else:
                image_size(path)
        except ImageError as error:
            return error.message
        return None


def _write(splits: dict[str, dict[str, SourcePair]], source: Path, out: Path, *, copy: bool) -> None:
    with new_data_set(out) as building:
        for split, pairs in splits.items():
            placed = _Placed(source, building / split, copy=copy)
            write_rows(building / split / METADATA, (placed.row(pair) for pair in pairs.values() if pair.captions))
            wordless = [placed.row(pair) for pair in pairs.values() if not pair.captions]
            if wordless:
                write_rows(building / split / WORDLESS, wordless)


class _Placed:
    """Puts images into a split's folder, under the names they have below the source."""

    def __init__(self, source: Path, folder: Path, *, copy: bool) -> None:
        self._source, self._folder, self._copy = source, folder, copy

    def row(self, pair: SourcePair) -> Row:
        return Row(
            id=pair.id,
            before_file_name=self._place(pair.before),
            after_file_name=self._place(pair.after),
            captions=pair.captions,
            change_type=pair.change_type,
            before_boxes=pair.before_boxes,
            after_boxes=pair.after_boxes,
            mask_file_name=self._place(pair.mask) if pair.mask is not None else None,
            scene_id=pair.scene_id,
            extra=pair.extra,
        )

    def _place(self, path: Path) -> str:
        name = path.relative_to(self._source)
        place_image(path, self._folder / name, copy=self._copy)
        return name.as_posix()
