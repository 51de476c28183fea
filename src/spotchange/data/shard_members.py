"""The images of tar shards as places, to be read from the middle of their shards by whoever needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spotchange.data.shard_index import ShardIndex, read_index
from spotchange.data.shards import index_of, list_shards
from spotchange.errors import DataError
from spotchange.storage import ShardMember, StorePath

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
    if not isinstance(shard, StorePath) and shard.exists() and not shard.is_file():
        raise DataError(f"{shard} is not a file")  # whoever reads a pipe waits until somebody writes into it
    return read_index(shard)
