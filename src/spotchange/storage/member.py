"""Members of tar shards as places: `shard.tar/NAME` is read from the middle of its shard, if it still lies there.

Members of a shard in a store share its parts (`reading.read_near`): whoever reads them in order asks the store once for
every 8 MiB, not once for each image.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from spotchange.storage.fetchable import Fetchable
from spotchange.storage.path import StorePath, read_between
from spotchange.storage.reading import forget_near, read_near
from spotchange.storage.stores import StoreError


class ShardMember(Fetchable):
    """Some bytes of a shard, known by their checksum: never those of another shard that took its place."""

    def __init__(self, shard: Path, name: str, *, first: int, size: int, sha256: str, shard_size: int) -> None:
        self._shard, self._shard_size = shard, shard_size
        self._name, self._first, self._size = name, first, size
        self._sha256 = bytes.fromhex(sha256)

    def __fspath__(self) -> str:
        return f"{self._shard}/{self._name}"

    def resolve(self) -> Path:
        """The file that is read."""
        return self._shard.resolve()

    def _read(self) -> bytes:
        content = self._bytes()
        if not self._is_mine(content) and isinstance(self._shard, StorePath):
            forget_near(str(self._shard))  # parts of a shard that was replaced meanwhile
            content = self._bytes()
        if not self._is_mine(content):
            raise StoreError(str(self), "the shard is damaged, or not the one that its index was made of")
        return content

    def _bytes(self) -> bytes:
        if isinstance(self._shard, StorePath):
            return read_near(str(self._shard), self._first, self._first + self._size, size=self._shard_size)
        return read_between(self._shard, self._first, self._first + self._size)

    def _is_mine(self, content: bytes) -> bool:
        return hashlib.sha256(content).digest() == self._sha256


class PairMembers(os.PathLike[str]):
    """The images of one pair of a shard, in the place of the folder that the names of its row are relative to."""

    def __init__(self, shard: Path, images: Mapping[str, ShardMember]) -> None:
        self._shard, self._images = shard, dict(images)

    def __fspath__(self) -> str:
        return str(self._shard)

    def __truediv__(self, name: str) -> ShardMember:
        return self._images[name]
