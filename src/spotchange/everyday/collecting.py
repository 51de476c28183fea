"""Makes and extends library folders: RGBA cut-outs and photos of one's own become things and backgrounds."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from spotchange.errors import DataError, InputError
from spotchange.everyday.language.colours import main_colour
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.library import BACKGROUND_IMAGES, BACKGROUNDS, OBJECTS, SIDE, TILES
from spotchange.files import load_json, read_input, write_bytes
from spotchange.images import read_image, read_stored

_IMAGES = (".png", ".webp")
_SMALLEST = 16  # pixels
_HEIGHT = 0.25  # metres, where nothing is known


@dataclass(frozen=True, kw_only=True)
class Added:
    """What was added to a library."""

    objects: int
    nouns: dict[str, int]
    unknown: tuple[str, ...]
    """Names of files whose noun the tree does not have: added as things without a name."""


def add_objects(
    folder: Path, library: Path, *, split: str = "train", licence: str = "own", nouns: dict[str, str] | None = None
) -> Added:
    """Add RGBA cut-outs to a library folder, which is made if it does not exist.

    The noun is the file's name up to the first digit or the folder it lies in: `mug_01.png`, `mug/01.png`,
    `plastic-bottle 3.webp`. `metadata.jsonl` in the folder, with `file_name` and `noun`, wins.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _IMAGES)
    if not files:
        raise InputError(f"{folder} holds no PNG or WebP cut-outs")
    known = everyday_nouns().ids
    named = _named(folder) | (nouns or {})
    rows, images = [], bytearray()
    unknown: list[str] = []
    counts: dict[str, int] = {}
    start = (library / TILES).stat().st_size if (library / TILES).exists() else 0
    for path in files:
        relative = path.relative_to(folder).as_posix()
        noun: str | None = named.get(relative) or _noun_of(path, folder, known)
        if noun not in known:
            unknown.append(relative)
            noun = None
        encoded, aspect, colour = _cut_out(path)
        rows.append(
            {
                "id": f"own:{relative}",
                "noun": noun,
                "colour": colour,
                "height": _HEIGHT,
                "split": split,
                "held_out_noun": False,
                "source": "own",
                "licence": licence,
                "views": [{"at": [start + len(images), len(encoded)], "aspect": aspect}],
            }
        )
        images += encoded
        counts[noun or "without a name"] = counts.get(noun or "without a name", 0) + 1
    _extend(library, OBJECTS, TILES, rows, bytes(images))
    return Added(objects=len(rows), nouns=counts, unknown=tuple(unknown))


def add_backgrounds(folder: Path, library: Path, *, split: str = "train", licence: str = "own") -> int:
    """Add photos to paste things on; returns how many."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (*_IMAGES, ".jpg", ".jpeg"))
    if not files:
        raise InputError(f"{folder} holds no photos")
    rows, images = [], bytearray()
    start = (library / BACKGROUND_IMAGES).stat().st_size if (library / BACKGROUND_IMAGES).exists() else 0
    for path in files:
        image = read_image(path)
        image.thumbnail((384, 384))
        encoded = _encoded(image, 75)
        at = [start + len(images), len(encoded)]
        name = f"own:{path.relative_to(folder).as_posix()}"
        rows.append({"id": name, "kind": "photo", "split": split, "source": "own", "licence": licence, "at": at})
        images += encoded
    _extend(library, BACKGROUNDS, BACKGROUND_IMAGES, rows, bytes(images))
    return len(rows)


def _named(folder: Path) -> dict[str, str]:
    path = folder / "metadata.jsonl"
    if not path.exists():
        return {}
    try:
        rows = [load_json(line) for line in read_input(path).splitlines() if line.strip()]
        return {row["file_name"]: row["noun"] for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"cannot read {path}: {error}", hint='a line is {"file_name": ..., "noun": ...}') from error


def _noun_of(path: Path, folder: Path, known: dict[str, int]) -> str:
    """From the file's own name, else from the folder it lies in."""
    own = " ".join(re.split(r"[\d_\-\s.]+", path.stem)).strip().lower()
    hyphened = re.sub(r"[\d_\s.]+", " ", path.stem).strip(" -").lower()
    return next(
        (name for name in (own, hyphened) if name in known), path.parent.name.lower() if path.parent != folder else own
    )


def _cut_out(path: Path) -> tuple[bytes, float, str]:
    """Cropped to what is seen, as small as the library needs it: encoded image, width / height, colour."""
    stored = read_stored(path)
    if "A" not in stored.getbands() and "transparency" not in stored.info:
        raise DataError(f"{path} has no transparency: cut the thing out of its background first")
    image = stored.convert("RGBA")
    alpha = np.asarray(image)[..., 3] > 8
    down, across = np.nonzero(alpha)
    if not len(down) or min(np.ptp(down), np.ptp(across)) < _SMALLEST:
        raise DataError(f"{path} shows less than {_SMALLEST} pixels of a thing")
    image = image.crop((int(across.min()), int(down.min()), int(across.max()) + 1, int(down.max()) + 1))
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return _encoded(image, 80), round(image.width / image.height, 4), main_colour(np.asarray(image))


def _encoded(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def _extend(library: Path, table: str, images: str, rows: list[dict[str, Any]], data: bytes) -> None:
    """Images first, then the rows that name them: an interruption leaves bytes that no row knows."""
    library.mkdir(parents=True, exist_ok=True)
    with (library / images).open("ab") as file:
        file.write(data)
    there = (library / table).read_bytes() if (library / table).exists() else b""
    write_bytes(library / table, there + "".join(json.dumps(row) + "\n" for row in rows).encode())
