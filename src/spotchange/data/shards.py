"""Data sets as tar files in the WebDataset convention: KEY.before.jpg, KEY.after.jpg, KEY.json, one after another.

A few large files travel and stream better than many small ones. Images go in and out as they are, byte for byte.
Beside each tar file lies its index (`shard_index.py`), so that images can be read from the middle of it.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from spotchange.data.folders import new_data_set
from spotchange.data.metadata import METADATA, Row, list_splits, parse_row, read_rows, write_rows
from spotchange.data.shard_index import IndexedPair, ShardIndex, Span, write_index
from spotchange.errors import DataError
from spotchange.files import atomic_path, load_json
from spotchange.images import SUFFIXES, image_size
from spotchange.storage import as_place, file_size

PAIRS_PER_SHARD = 1000
_SIDES = ("before", "after", "mask")


@dataclass(frozen=True, kw_only=True)
class PackedPair:
    """A row and its images as encoded bytes; the row's file names are those inside the shard."""

    row: Row
    before: bytes
    after: bytes
    mask: bytes | None = None
    places: dict[str, int]
    """Where in the shard the bytes of each image begin."""
    end: int
    """Where its last member ends."""


def write_shards(
    data_dir: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    pairs_per_shard: int = PAIRS_PER_SHARD,
    skip_bad: bool = False,
    advance: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Pack every split as `out/SPLIT-NNNNNN.tar`, each with its index; returns the pairs of each split."""
    splits = list_splits(data_dir)
    if not splits:
        raise DataError(f"{data_dir} holds no data set", hint="a data set is DIR/{train,val,test}/metadata.jsonl")
    taken = [path.name for split in splits for path in as_place(out).glob(f"{split}-*.tar")]
    if taken:
        raise DataError(f"{out} holds shards already ({taken[0]})", hint="choose a new folder for --out")
    counts = {}
    for split in splits:
        rows = iter(read_rows(data_dir, split, skip_bad=skip_bad))
        number = counts[split] = 0
        while chunk := list(islice(rows, pairs_per_shard)):
            _write_shard(as_place(out) / f"{split}-{number:06d}.tar", chunk, first=counts[split])
            counts[split] += len(chunk)
            number += 1
            if advance is not None:
                advance(len(chunk))
    return counts


def read_shards(paths: Iterable[str | os.PathLike[str]], *, captions_needed: bool = True) -> Iterator[PackedPair]:
    """Stream the pairs of shards, in order; also of shards that others wrote, as long as the names are the same."""
    for path in paths:
        path = as_place(path)
        key, parts = "", dict[str, _Member]()
        for member in _members(path):
            folder, _, name = member.name.rpartition("/")
            stem, _, extension = name.partition(".")
            if f"{folder}/{stem}" != key and parts:
                yield _unpack(path, key, parts, captions_needed)
                parts = {}
            key = f"{folder}/{stem}"
            if extension in parts:
                raise DataError(f"{path} holds {member.name} twice")
            parts[extension] = member
        if parts:
            yield _unpack(path, key, parts, captions_needed)


def index_of(shard: Path) -> ShardIndex:
    """What lies where in a shard, found by reading all of it: damage shows here."""
    pairs, end = [], 0
    for pair in read_shards([shard], captions_needed=False):
        before = Span.of(pair.row.before_file_name, pair.places["before"], pair.before)
        after = Span.of(pair.row.after_file_name, pair.places["after"], pair.after)
        pairs.append(IndexedPair(pair.row.id, before, after))
        end = pair.end
    return ShardIndex(size=file_size(shard), end=end, pairs=tuple(pairs))


def list_shards(folder: str | os.PathLike[str]) -> dict[str, list[Path]]:
    """Shards of each split in a folder, in order."""
    found: dict[str, list[Path]] = {}
    for path in sorted(as_place(folder).glob("*-*.tar")):
        split, number = path.stem.rpartition("-")[::2]
        if path.name.startswith(".") and re.fullmatch(r"\d+\.\w{8}", number):
            continue  # of a write that was interrupted
        if not re.fullmatch(r"\w[\w.-]*", split):  # it becomes the name of a folder
            hint = "shards are named SPLIT-NNNNNN.tar"
            raise DataError(f"{path}: {split!r} cannot be the name of a split", hint=hint)
        found.setdefault(split, []).append(path)
    if not found:
        raise DataError(f"{folder} holds no shards", hint="shards are named SPLIT-NNNNNN.tar")
    return found


def unpack_shards(
    folder: str | os.PathLike[str], out: str | os.PathLike[str], *, advance: Callable[[int], None] | None = None
) -> dict[str, int]:
    """Turn shards back into a data set folder, all or nothing; returns the pairs of each split."""
    shards = list_shards(folder)
    with new_data_set(Path(out)) as building:
        return {
            split: write_rows(building / split / METADATA, _unpacked(building / split, paths, advance))
            for split, paths in shards.items()
        }


def _unpacked(folder: Path, paths: list[Path], advance: Callable[[int], None] | None) -> Iterator[Row]:
    (folder / "images").mkdir(parents=True)
    for number, pair in enumerate(read_shards(paths)):
        names: dict[str, Any] = {}
        for side in _SIDES:
            content, old = getattr(pair, side), getattr(pair.row, f"{side}_file_name")
            if content is not None:
                # Named anew: what a foreign shard calls its members must not decide where files land.
                names[f"{side}_file_name"] = f"images/{number:08d}.{side}{_suffix(old)}"
                (folder / names[f"{side}_file_name"]).write_bytes(content)
        yield replace(pair.row, **names)
        if advance is not None:
            advance(1)


def _suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{name!r} does not end like an image ({', '.join(SUFFIXES)})")
    return suffix


def _write_shard(path: Path, rows: list[Row], *, first: int) -> None:
    with atomic_path(path) as temporary:
        _pack(temporary, rows, first=first)
        index = index_of(temporary)
    write_index(path, index)


def _pack(path: Path, rows: list[Row], *, first: int) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as shard:
        for number, row in enumerate(rows, start=first):
            key = f"{number:08d}"  # a row's own id may hold dots and slashes, which mean something in the convention
            names: dict[str, Any] = {}
            for side, image in zip(_SIDES, (row.before_path, row.after_path, row.mask_path), strict=True):
                if image is not None:
                    image_size(image)  # whatever else a row names must not be packed and given away
                    names[f"{side}_file_name"] = f"{key}.{side}{image.suffix.lower()}"
                    _add(shard, names[f"{side}_file_name"], image.read_bytes())
            text = json.dumps(replace(row, **names).to_dict(), ensure_ascii=False)
            _add(shard, f"{key}.json", text.encode())


def _add(shard: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # no time and no owner: the same data gives the same bytes
    member.size = len(content)
    member.mode = 0o644
    shard.addfile(member, io.BytesIO(content))


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    first: int
    content: bytes


def _members(path: Path) -> Iterator[_Member]:
    try:
        _check_end(path)
        with path.open("rb") as stream, tarfile.open(fileobj=stream, mode="r|") as shard:
            for member in shard:
                packed = shard.extractfile(member) if member.isfile() else None
                if packed is not None:
                    content = packed.read()
                    if len(content) != member.size:
                        raise DataError(f"{path} is truncated at {member.name}")
                    yield _Member(member.name, member.offset_data, content)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not a sound tar file ({reason})") from error


def _check_end(path: Path) -> None:
    """A tar file ends with empty blocks; without them it was cut, even where the last member is whole."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 2 * tarfile.BLOCKSIZE))
        if size < 2 * tarfile.BLOCKSIZE or any(stream.read()):
            raise DataError(f"{path} is not a sound tar file (it has no end mark, so it was cut)")


def _unpack(path: Path, key: str, parts: dict[str, _Member], captions_needed: bool) -> PackedPair:
    key = key.rpartition("/")[2]
    images: dict[str, tuple[str, _Member]] = {}
    for side in _SIDES:
        names = [name for name in parts if name.partition(".")[0] == side]
        if names:
            images[side] = f"{key}.{names[0]}", parts[names[0]]
    missing = [name for name in ("before", "after") if name not in images] + ["json"] * ("json" not in parts)
    if missing:
        raise DataError(f"{path}: '{key}' has no {' and no '.join(missing)}")
    try:
        values = load_json(parts["json"].content)
        if not isinstance(values, dict):
            raise ValueError("not an object")
        values.setdefault("id", key)
        for side in _SIDES:
            values.pop(f"{side}_file_name", None)
            if side in images:
                values[f"{side}_file_name"] = images[side][0]
        row = parse_row(json.dumps(values), path.parent, captions_needed=captions_needed)
    except (ValueError, DataError) as error:
        raise DataError(f"{path}: '{key}.json' is no row ({error})") from error
    return PackedPair(
        row=row,
        before=images["before"][1].content,
        after=images["after"][1].content,
        mask=images["mask"][1].content if "mask" in images else None,
        places={side: member.first for side, (_, member) in images.items()},
        end=max(member.first + len(member.content) for member in parts.values()),
    )
