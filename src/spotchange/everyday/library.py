"""Things to paste and images to paste them on: a folder of cut-outs and backgrounds, and how it lies in memory.

A library folder holds `objects.jsonl` and `backgrounds.jsonl` with `tiles.bin` and `backgrounds.bin`, the encoded
images one after the other; a row says where its image begins and how long it is (`at`).
"""

from __future__ import annotations

import io
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from spotchange.errors import DataError
from spotchange.everyday.language.colours import COLOURS
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.files import load_json, read_input

SIDE = 128  # of a tile at its sharpest
LEVELS = 4  # each half as wide as the one before
BACKGROUND_SIDE = 352
OBJECTS, TILES = "objects.jsonl", "tiles.bin"
BACKGROUNDS, BACKGROUND_IMAGES = "backgrounds.jsonl", "backgrounds.bin"
_RARE = 0.6  # exponent that lets rare nouns be drawn nearly as often as common ones


@dataclass(frozen=True, kw_only=True)
class Library:
    """All of one split on one device. Pixels are packed: red in the low byte, premultiplied alpha in the high one."""

    rows: list[dict[str, Any]]  # objects as their file has them
    background_rows: list[dict[str, Any]]
    atlas: Tensor  # int32 (pixels,): every view at every level, squares one after the other
    offsets: Tensor  # int64 (views, levels): where a level begins
    aspects: Tensor  # float (views,): width / height of what the square shows
    first_view: Tensor  # int64 (objects,)
    view_count: Tensor  # int64 (objects,)
    nouns: Tensor  # int64 (objects,): place in the tree, or one beyond it for things without a name
    colours: Tensor  # int64 (objects,)
    heights: Tensor  # float (objects,), metres
    chances: Tensor  # float (objects,): cumulated probability of being drawn
    backgrounds: Tensor  # int32 (backgrounds, side * side)

    @property
    def device(self) -> torch.device:
        return self.atlas.device


def read_library(
    folder: Path,
    *,
    split: str = "train",
    device: str | torch.device = "cpu",
    held_out_nouns: bool | None = None,
    most_objects: int | None = None,
    most_backgrounds: int | None = None,
) -> Library:
    """One split of a library folder, decoded.

    Args:
        split: "train" or "held-out".
        held_out_nouns: True: only objects whose noun no training object has; False: none of these; None: all.
        most_objects: Take only so many, spread over the file; for tests and quick looks.
    """
    rows = [row for row in _rows(folder / OBJECTS) if row["split"] == split]
    if held_out_nouns is not None:
        rows = [row for row in rows if bool(row.get("held_out_noun")) == held_out_nouns]
    background_rows = [row for row in _rows(folder / BACKGROUNDS) if row["split"] == split]
    rows, background_rows = _spread(rows, most_objects), _spread(background_rows, most_backgrounds)
    if not rows or not background_rows:
        raise DataError(
            f"{folder} has no objects or no backgrounds of the split '{split}'",
            hint=f"`spotchange scenes add-objects FOLDER --backgrounds PHOTOS --split {split}` adds some",
        )
    views = [view for row in rows for view in row["views"]]
    counts = [len(row["views"]) for row in rows]
    tree, often = everyday_nouns().ids, Counter(row["noun"] for row in rows)
    chances = np.array([often[row["noun"]] ** -_RARE * row.get("weight", 1.0) for row in rows])
    tiles = _decoded(folder / TILES, views, _tile)
    size = sum((SIDE >> level) ** 2 for level in range(LEVELS))
    starts = np.cumsum([0] + [(SIDE >> level) ** 2 for level in range(LEVELS)])[:LEVELS]
    offsets = np.arange(len(views))[:, None] * size + starts

    def on(values: Any, kind: torch.dtype) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=kind).to(device)

    return Library(
        rows=rows,
        background_rows=background_rows,
        atlas=torch.from_numpy(tiles.reshape(-1)).to(device),
        offsets=on(offsets, torch.int64),
        aspects=on([view["aspect"] for view in views], torch.float32),
        first_view=on(np.cumsum([0, *counts])[:-1], torch.int64),
        view_count=on(counts, torch.int64),
        nouns=on([len(tree) if row["noun"] is None else tree[row["noun"]] for row in rows], torch.int64),
        colours=on([COLOURS.index(row["colour"]) for row in rows], torch.int64),
        heights=on([row["height"] for row in rows], torch.float32),
        chances=on(np.cumsum(chances / chances.sum()), torch.float32),
        backgrounds=torch.from_numpy(_decoded(folder / BACKGROUND_IMAGES, background_rows, _background)).to(device),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = [load_json(line) for line in read_input(path).splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the library's {path}: {error}") from error
    if not all(isinstance(row, dict) and "split" in row for row in rows):
        raise DataError(f"the library's {path} holds lines that are none of a library")
    return rows


def _spread(rows: list[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    if most is None or most >= len(rows):
        return rows
    return [rows[int(place)] for place in np.linspace(0, len(rows) - 1, most)]


def _decoded(path: Path, rows: list[dict[str, Any]], decode: Any) -> npt.NDArray[np.int32]:
    """(rows, pixels): decoded on all cores; decoding leaves the interpreter free."""
    try:
        data = memoryview(path.read_bytes())
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = list(pool.map(lambda row: decode(bytes(data[row["at"][0] : sum(row["at"])])), rows))
    except (OSError, ValueError, KeyError, TypeError) as error:  # cut off, or of another library than the rows
        raise DataError(f"the library's {path} is damaged: {' '.join(str(error).split())[:200]}") from error
    return np.stack(parts)


def _tile(encoded: bytes) -> npt.NDArray[np.int32]:
    """All levels of a cut-out, one after the other."""
    image = Image.open(io.BytesIO(encoded)).convert("RGBA").convert("RGBa")
    sharp = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    levels = [sharp] + [sharp.reduce(2**level) for level in range(1, LEVELS)]
    return np.concatenate([_packed(np.asarray(each)) for each in levels])


def _background(encoded: bytes) -> npt.NDArray[np.int32]:
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    image = image.resize((BACKGROUND_SIDE, BACKGROUND_SIDE), Image.Resampling.BICUBIC)
    opaque = np.full((BACKGROUND_SIDE, BACKGROUND_SIDE, 1), 255, np.uint8)
    return _packed(np.concatenate([np.asarray(image), opaque], axis=-1))


def _packed(rgba: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(rgba.reshape(-1, 4)).view("<i4")[:, 0]


def bundled_library() -> Path:
    """Where the library that ships lies."""
    from importlib import resources

    folder = Path(str(resources.files("spotchange"))) / "assets" / "everyday-library"
    if not (folder / OBJECTS).exists():
        raise DataError("this build of spotchange carries no everyday things", hint="name a folder with --library")
    return folder
