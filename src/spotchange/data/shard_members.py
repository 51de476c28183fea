"""The pairs of tar shards where they lie: images as places, to be read from the middle of their shards when needed.

What is to be captioned is found by the index of each shard. Rows with their references are in no index: a shard is
read through for them, its images again when they are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

from spotchange.data.metadata import Row
from spotchange.data.shard_index import ShardIndex, Span, read_index
from spotchange.data.shards import PackedPair, index_of, list_shards, read_shards
from spotchange.errors import DataError
from spotchange.storage import PairMembers, ShardMember, StorePath, file_size

READERS = 8  # threads: a store answers slowly, but many at a time


def members_of(
    place: Path, *, told: Callable[[str], None] = lambda text: None
) -> Iterator[tuple[str, ShardMember, ShardMember]]:
    """Id, image before and image after of every pair, in the order of the shards.

    Args:
        place: a shard, a folder of them, or a pattern such as train-*.tar.
        told: learns in one line how many shards have no index and are read through.
    """
    shards = _shards_at(place)
    with ThreadPoolExecutor(READERS) as readers:
        indices = list(readers.map(_read_index, shards))
        missing = sum(index is None for index in indices)
        if missing:
            told(f"{place}: {missing} of {len(shards)} shards have no index and are read through first")
        whole = readers.map(_indexed, shards, indices)
        for shard, index in zip(shards, whole, strict=True):
            yield from index.members(shard)


def rows_of(place: Path, split: str | None = None) -> Iterator[Row]:
    """The rows of shards, with references, as far as they are asked for; their images stay where they are.

    Args:
        place: as `members_of` takes it.
        split: of a folder, the shards of this split alone.
    """
    for shard in _shards_at(place) if split is None else _shards_of(place, split):
        _check_is_file(shard)
        try:
            size = file_size(shard)
        except OSError as error:
            raise DataError(f"cannot read {shard}: {error.strerror or error}") from error
        for pair in read_shards([shard]):
            yield replace(pair.row, folder=cast("Path", PairMembers(shard, _images(pair, shard, size))))


def _images(pair: PackedPair, shard: Path, size: int) -> dict[str, ShardMember]:
    """The images of a pair by their names, known by what was just read."""
    contents = {"before": pair.before, "after": pair.after, "mask": pair.mask}
    found = {}
    for side, first in pair.places.items():
        content, name = contents[side], getattr(pair.row, f"{side}_file_name")
        assert content is not None
        found[name] = Span.of(name, first, content).member(shard, size)
    return found


def _shards_of(folder: Path, split: str) -> list[Path]:
    shards = list_shards(folder)
    if split not in shards:
        raise DataError(f"{folder} has no shards of a split '{split}'", hint=f"splits there: {', '.join(shards)}")
    return shards[split]


def _indexed(shard: Path, index: ShardIndex | None) -> ShardIndex:
    return index_of(shard) if index is None else index


def _shards_at(place: Path) -> list[Path]:
    if "*" in place.name and not place.exists():
        found = sorted(each for each in place.parent.glob(place.name) if not each.name.startswith("."))
        if not found:
            raise DataError(f"no shard matches {place}")
        return found
    if place.suffix.lower() == ".tar" and not place.is_dir():
        return [place]
    return [shard for shards in list_shards(place).values() for shard in shards]


def _read_index(shard: Path) -> ShardIndex | None:
    _check_is_file(shard)
    return read_index(shard)


def _check_is_file(shard: Path) -> None:
    if not isinstance(shard, StorePath) and shard.exists() and not shard.is_file():
        raise DataError(f"{shard} is not a file")  # whoever reads a pipe waits until somebody writes into it
