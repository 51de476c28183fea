"""What lies where in a tar shard: `train-000000.index.json` beside `train-000000.tar`.

With it, images are read from the middle of a shard without a look at the rest. It holds the checksum of each, so one
that no longer fits is noticed and never gives the images of another pair. Shards without one are read through once.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spotchange.errors import DataError
from spotchange.files import load_json, write_text
from spotchange.storage import ShardMember, read_between

FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Span:
    """An image in a shard: its name there, its first byte, how many there are, and their SHA-256."""

    name: str
    first: int
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, first: int, content: bytes) -> Span:
        """Where this content lies."""
        return cls(name, first, len(content), hashlib.sha256(content).hexdigest())

    def member(self, shard: Path, shard_size: int) -> ShardMember:
        """The image as a place, in a shard of so many bytes."""
        return ShardMember(
            shard, self.name, first=self.first, size=self.size, sha256=self.sha256, shard_size=shard_size
        )


@dataclass(frozen=True, slots=True)
class IndexedPair:
    """A row's id and where its images are."""

    id: str
    before: Span
    after: Span


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The pairs of a shard of `size` bytes, whose last member ends at `end`; zeros follow."""

    size: int
    end: int
    pairs: tuple[IndexedPair, ...]

    def members(self, shard: Path) -> Iterable[tuple[str, ShardMember, ShardMember]]:
        """Id and both images of every pair, as places."""
        for pair in self.pairs:
            yield pair.id, pair.before.member(shard, self.size), pair.after.member(shard, self.size)


def index_path(shard: Path) -> Path:
    """Where the index of a shard lies."""
    return shard.with_name(f"{shard.stem}.index.json")


def write_index(shard: Path, index: ShardIndex) -> None:
    """Put an index beside its shard."""
    pairs = [
        {"id": pair.id} | {side: [at.name, at.first, at.size, at.sha256] for side, at in _sides(pair)}
        for pair in index.pairs
    ]
    values = {"format": FORMAT, "bytes": index.size, "end": index.end, "pairs": pairs}
    text = json.dumps(values, ensure_ascii=False)
    write_text(index_path(shard), text + "\n")


def read_index(shard: Path) -> ShardIndex | None:
    """The index beside a shard; None where there is none."""
    path = index_path(shard)
    hint = "without the index, the shard is read through: delete it"
    try:
        index = _index(load_json(path.read_bytes()))
        # One byte more than it should have: a shard that was cut or added to has no such end.
        if read_between(shard, index.end, index.size + 1) != bytes(index.size - index.end):
            raise DataError(f"{path} does not fit {shard.name}, which has another end", hint=hint)
        return index
    except (FileNotFoundError, PermissionError):  # who may not list a bucket of S3 is refused what is not there
        return None
    except OSError as error:
        raise DataError(f"cannot read {shard} by {path.name}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the index of a shard", hint=hint) from error


def _sides(pair: IndexedPair) -> tuple[tuple[str, Span], tuple[str, Span]]:
    return ("before", pair.before), ("after", pair.after)


def _index(values: dict[str, Any]) -> ShardIndex:
    size, end = values["bytes"], values["end"]
    if values["format"] != FORMAT or not _are_places(size, end) or not 0 < size - end <= 2 * tarfile.RECORDSIZE:
        raise ValueError("not the index of a shard")
    return ShardIndex(size=size, end=end, pairs=tuple(_pair(each, end) for each in values["pairs"]))


def _pair(values: dict[str, Any], end: int) -> IndexedPair:
    if not isinstance(values["id"], str) or not values["id"].strip():
        raise ValueError("no id")
    return IndexedPair(values["id"], _span(values["before"], end), _span(values["after"], end))


def _span(values: list[Any], end: int) -> Span:
    name, first, size, sha256 = values
    if not isinstance(name, str) or not _are_places(first, size, end - first - size) or not _SHA256.fullmatch(sha256):
        raise ValueError("not a place in the shard")
    return Span(name, first, size, sha256)


def _are_places(*values: Any) -> bool:
    return all(type(each) is int and each >= 0 for each in values)
