"""The rows of a split as flat files beside its decoded images: numbers, captions and places of change.

Everything is written while the rows stream by and read in place, so memory does not grow with the set.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from spotchange.data.caches.flatfile import FlatFile
from spotchange.data.metadata import Row, RowReader, list_splits, read_rows
from spotchange.errors import DataError, ImageError
from spotchange.files import load_json
from spotchange.images import image_size, read_image
from spotchange.pairs import CHANGE_TYPES

CELLS = 56  # places of change are kept on a 56 x 56 grid, which 7, 8, 14 and 28 patches divide
UNKNOWN = -1
_RECENT = 256  # images remembered while indexing: rows that share one stand near each other

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

_ROW = np.dtype([("before", "<i8"), ("after", "<i8"), ("change_type", "<i8"), ("scene", "<i8"), ("captions_at", "<i8")])


def other_change_types(data_dir: Path) -> list[str]:
    """Words for change types beyond those of scenes, over all splits, so that every split numbers them alike."""
    names: set[str] = set()
    for split in list_splits(data_dir):
        for row in read_rows(data_dir, split, skip_bad=True, check_files=False, on_problem=lambda _: None):
            names.add(row.change_type or "none")
    return sorted(names.difference(CHANGE_TYPES))


def build_index(reader: RowReader, folder: Path, *, other_types: list[str]) -> dict[str, Any]:
    """Write the index of all rows to `folder`; returns its facts: how many rows and images, which change types."""
    writer = _IndexWriter(folder, [*CHANGE_TYPES, *other_types])
    with writer:
        for row in reader:
            writer.add(row)
    if not writer.rows:
        raise DataError(f"{reader.path} holds no usable row")
    return {
        "rows": writer.rows,
        "pictures": writer.images,
        "change_types": writer.change_types,
        "masks": writer.masks_known,
    }


def image_paths(folder: Path) -> Iterator[Path]:
    """Source files of the images, in the order of their numbers."""
    with (folder / "pictures.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield Path(load_json(line))


class RowIndex:
    """Reads a finished index."""

    def __init__(self, folder: Path) -> None:
        try:
            facts = load_json((folder / "index.json").read_text(encoding="utf-8"))
            self.change_types: tuple[str, ...] = tuple(facts["change_types"])
            self.height, self.width = int(facts["height"]), int(facts["width"])
            self._rows = np.fromfile(folder / "rows.bin", dtype=_ROW)  # 40 bytes a pair
            decoded = np.fromfile(folder / "state.bin", dtype=np.uint8) == 1
            if (len(self._rows), len(decoded)) != (facts["rows"], facts["pictures"]):
                raise ValueError("it is shorter than it says")
            # Pairs with an unreadable image are in the index but not among the usable rows.
            self.usable: Numbers = np.flatnonzero(decoded[self._rows["before"]] & decoded[self._rows["after"]])
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{folder} is damaged ({reason})", hint="delete that folder; it is built anew") from error
        self._captions = FlatFile(folder / "captions.bin")
        self._masks = FlatFile(folder / "masks.bin") if facts["masks"] else None

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str, rows: Numbers | None = None) -> Numbers:
        """One of before, after, change_type and scene."""
        values = self._rows[name]
        return np.asarray(values if rows is None else values[rows], dtype=np.int64)

    def captions(self, row: int) -> list[str]:
        """All captions of a row."""
        start = int(self._rows["captions_at"][row])
        end = int(self._rows["captions_at"][row + 1]) if row + 1 < len(self._rows) else len(self._captions)
        if end < start:
            raise DataError(f"{self._captions.path} is shorter than its index says", hint="delete its folder")
        return list(load_json(self._captions.read(start, end - start)))

    @property
    def has_masks(self) -> bool:
        """Whether it is known for every pair where its change is."""
        return self._masks is not None

    def change_mask(self, rows: Numbers, grid: tuple[int, int]) -> Flags:
        """(rows, 2, patches): patches of before and after that the change touches, for a grid of (rows, columns)."""
        assert self._masks is not None
        packed = np.empty((len(rows), 2 * CELLS * CELLS // 8), dtype=np.uint8)
        for place, row in enumerate(rows):
            self._masks.read_into(int(row) * packed.shape[1], packed[place])
        cells = np.unpackbits(packed, axis=-1).reshape(len(rows), 2, CELLS, CELLS)
        for axis, count in ((2, grid[0]), (3, grid[1])):
            # A patch takes every cell it overlaps, also where the grids do not divide each other.
            starts = np.arange(count) * CELLS // count
            ends = -(-(np.arange(count) + 1) * CELLS // count)
            parts = [
                cells.take(range(start, end), axis=axis).max(axis=axis) for start, end in zip(starts, ends, strict=True)
            ]
            cells = np.stack(parts, axis=axis)
        return cells.reshape(len(rows), 2, -1).astype(bool)


class _IndexWriter:
    def __init__(self, folder: Path, change_types: list[str]) -> None:
        self.rows = self.images = 0
        self.change_types = change_types
        self.masks_known = True
        self._recent: OrderedDict[Path, int] = OrderedDict()
        self._files = {name: (folder / name).open("wb") for name in ("rows.bin", "captions.bin", "masks.bin")}
        self._images = (folder / "pictures.jsonl").open("w", encoding="utf-8")

    def __enter__(self) -> _IndexWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._files.values():
            stream.close()
        self._images.close()

    def add(self, row: Row) -> None:
        scene = row.scene_id if row.scene_id is not None else row.id
        values = (
            self._image(row.before_path),
            self._image(row.after_path),
            self.change_types.index(row.change_type) if row.change_type is not None else UNKNOWN,
            scene if isinstance(scene, int) and abs(scene) < 2**62 else _number(str(scene)),
            self._files["captions.bin"].tell(),
        )
        self._files["rows.bin"].write(np.array(values, dtype=_ROW).tobytes())
        self._files["captions.bin"].write(json.dumps(row.captions).encode() + b"\n")
        if self.masks_known:
            mask = change_cells(row)
            self.masks_known = mask is not None
            if mask is not None:
                self._files["masks.bin"].write(np.packbits(mask.reshape(2, -1), axis=-1).tobytes())
        self.rows += 1

    def _image(self, path: Path) -> int:
        if path in self._recent:
            self._recent.move_to_end(path)
            return self._recent[path]
        self._recent[path] = self.images
        self._images.write(json.dumps(str(path.absolute())) + "\n")
        self.images += 1
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return self._recent[path]


def change_cells(row: Row) -> Flags | None:
    """(2, CELLS, CELLS): which cells of before and after the change touches; None where the row does not tell."""
    try:
        if row.mask_path is not None:
            drawn = read_image(row.mask_path).convert("L").point(lambda value: 255 if value else 0)
            cells = np.asarray(drawn.resize((CELLS, CELLS), Image.Resampling.BOX)) > 0
            return np.stack([cells, cells])
        if (
            row.before_boxes is not None
            and row.after_boxes is not None
            and (row.before_boxes or row.after_boxes or row.change_type == "none")
        ):
            sides = ((row.before_path, row.before_boxes), (row.after_path, row.after_boxes))
            return np.stack([_box_cells(path, boxes) for path, boxes in sides])
    except ImageError:
        return None  # the image itself is judged when it is decoded
    if row.change_type == "none":
        return np.zeros((2, CELLS, CELLS), dtype=bool)
    return None


def _box_cells(path: Path, boxes: tuple[tuple[float, float, float, float], ...]) -> Flags:
    cells = Image.new("1", (CELLS, CELLS))
    if boxes:
        width, height = image_size(path)
        draw = ImageDraw.Draw(cells)
        for x, y, box_width, box_height in boxes:
            left, right = x * CELLS / width, (x + box_width) * CELLS / width
            top, bottom = y * CELLS / height, (y + box_height) * CELLS / height
            # Pillow fills both ends of a rectangle; a box that ends on a cell's edge must not touch the next cell.
            last = (max(int(left), math.ceil(right) - 1), max(int(top), math.ceil(bottom) - 1))
            draw.rectangle((int(left), int(top), *last), fill=1)
    return np.asarray(cells)


def _number(name: str) -> int:
    """A scene's name as a number that is the same in every process; negative, so that it meets no given number."""
    return -1 - int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big")
