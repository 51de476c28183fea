"""Pairs from a zip file or two folders of uploads, matched by name, bounded before anything is unpacked."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from spotchange.images import SUFFIXES
from spotchange.serving.api.problems import Problem
from spotchange.serving.settings import ServerSettings

SIDES = ("before", "after")
MOST_MEMBERS = 10_000
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError)


@dataclass(frozen=True, kw_only=True)
class PairFiles:
    """A pair by name, read only when its turn comes."""

    id: str
    read_before: Callable[[], bytes]
    read_after: Callable[[], bytes]


@dataclass(frozen=True, kw_only=True)
class Paired:
    """The pairs of an upload, and its images that are in none."""

    pairs: list[PairFiles]
    alone: list[str]


def pairs_of_zip(path: Path, settings: ServerSettings) -> Paired:
    """Pairs in a zip: `before/NAME` with `after/NAME`, or `NAME_before.png` with `NAME_after.png`.

    Members are read into memory one by one and never unpacked to disk, so their paths cannot lead anywhere.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except _BROKEN_ZIP:
        raise Problem(415, "not-a-zip", "this is not a zip file, or it is damaged") from None
    if len(names) > MOST_MEMBERS:
        raise Problem(413, "too-many-members", f"the zip file has more than {MOST_MEMBERS:,} members")
    members: dict[tuple[str, str], str] = {}
    images = [name for name in names if _is_image(name)]
    for name in images:
        place = _split(name)
        if place is not None:
            members[place] = name
    pairs = sorted({pair for _, pair in members if all((side, pair) in members for side in SIDES)})
    _check(len(pairs), settings, "the zip file has no pair: put pictures of the same name into before/ and after/")
    paired = {members[side, pair] for side in SIDES for pair in pairs}
    return Paired(
        pairs=[
            PairFiles(
                id=pair,
                read_before=partial(_member, path, members["before", pair], settings),
                read_after=partial(_member, path, members["after", pair], settings),
            )
            for pair in pairs
        ],
        alone=[name for name in images if name not in paired],
    )


def pairs_of_folders(
    before: Sequence[tuple[str, Path]], after: Sequence[tuple[str, Path]], settings: ServerSettings
) -> Paired:
    """Uploads of two folders with the same names in both."""
    sides = [{_inside(name): path for name, path in files if _is_image(name)} for files in (before, after)]
    names = sorted(sides[0].keys() & sides[1].keys())
    _check(len(names), settings, "no picture has the same name in both folders")
    return Paired(
        pairs=[
            PairFiles(id=name, read_before=sides[0][name].read_bytes, read_after=sides[1][name].read_bytes)
            for name in names
        ],
        alone=[
            f"{side}/{name}"
            for side, found in zip(SIDES, sides, strict=True)
            for name in sorted(set(found) - set(names))
        ],
    )


def _split(name: str) -> tuple[str, str] | None:
    """Which side a member of a zip is, and the pair it belongs to."""
    path = PurePosixPath(name.replace("\\", "/"))
    for depth, part in enumerate(path.parts[:-1]):
        if part.lower() in SIDES:
            return part.lower(), "/".join(path.parts[depth + 1 :])
    for side in SIDES:
        if path.stem.lower().endswith(f"_{side}"):
            return side, path.stem[: -len(side) - 1]
    return None


def _inside(name: str) -> str:
    """A folder's upload carries the folder's own name in front, which differs between the two."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return "/".join(parts[1:]) if len(parts) > 1 else name


def _is_image(name: str) -> bool:
    last = PurePosixPath(name.replace("\\", "/"))
    return last.suffix.lower() in SUFFIXES and not last.name.startswith("._")  # what macOS adds is no image


def _member(path: Path, name: str, settings: ServerSettings) -> bytes:
    """One member; what it says about its size is checked, and not believed."""
    limit = settings.max_image_bytes
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(name).file_size <= limit:
                with archive.open(name) as stream:
                    content = stream.read(limit + 1)
                if len(content) <= limit:
                    return content
    except _BROKEN_ZIP:
        raise Problem(422, "unreadable-picture", "this member of the zip file is damaged or encrypted") from None
    raise Problem(413, "picture-too-large", f"more than {limit:,} bytes")


def _check(pairs: int, settings: ServerSettings, none: str) -> None:
    if not pairs:
        raise Problem(422, "no-pair", none)
    if pairs > settings.max_page_pairs:
        raise Problem(413, "too-many-pairs", f"{pairs} pairs are more than the limit of {settings.max_page_pairs}")
