"""The one place that reads from stores: whole files, parts of them, streams that read ahead, folders."""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from spotchange.storage.stores import StoreError, tried

AHEAD = 8 * 2**20  # bytes read ahead while what came before is used


def read_whole(address: str) -> bytes:
    """All bytes of a file."""
    return bytes(tried(address, lambda store, path: store.cat_file(path)))


def read_part(address: str, start: int, end: int) -> bytes:
    """Some bytes of a file."""
    content = bytes(tried(address, lambda store, path: store.cat_file(path, start=start, end=end)))
    # A server that knows no ranges sends everything.
    return content[start:end] if len(content) > end - start else content


def size_of(address: str) -> int:
    """Bytes of a file."""
    size = tried(address, lambda store, path: store.size(path), fresh=True)
    if size is None:
        raise StoreError(address, "the server does not say how long it is")
    return int(size)


def open_stream(address: str) -> io.BufferedReader:
    """A file as a stream."""
    return io.BufferedReader(_ReadAhead(address), 2**20)


def read_near(address: str, start: int, end: int, *, size: int) -> bytes:
    """Some bytes of a file of `size` bytes, near others that are wanted too: whole parts are fetched and kept a while.

    For any number of threads that read a file nearly from front to back.
    """
    if start == end:
        return b""
    whole = b"".join(each.result() for each in _NEAR.parts(address, start, end, size))
    skipped = start // AHEAD * AHEAD
    return whole[start - skipped : end - skipped]


def forget_near(address: str) -> None:
    """Fetch parts of a file anew: it may have been replaced."""
    _NEAR.forget(address)


def files_below(address: str, *, depth: int | None = None) -> dict[str, dict[str, Any]]:
    """What the store says of every file below an address, by the name relative to it, in order; one request a page."""
    found = tried(address, lambda store, path: store.find(path, maxdepth=depth, detail=True), fresh=True)
    if not isinstance(found, dict):  # adlfs, of a file: nothing is below it
        return {}
    inside = address.partition("://")[2].rstrip("/") + "/"
    below = {name[name.index(inside) + len(inside) :]: facts for name, facts in found.items() if inside in name}
    return dict(sorted(below.items()))


class _Near:
    """The parts that were fetched last, by file and number; the next one is fetched when half of one is used."""

    KEPT = 4

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Future[bytes]] = OrderedDict()
        self._readers = ThreadPoolExecutor(2)

    def parts(self, address: str, start: int, end: int, size: int) -> list[Future[bytes]]:
        with self._lock:
            wanted = [self._part(address, number, size) for number in range(start // AHEAD, -(-end // AHEAD))]
            following = -(-end // AHEAD)
            if following * AHEAD - end < AHEAD // 2 and following * AHEAD < size:
                self._part(address, following, size)
            while len(self._kept) > self.KEPT:
                self._kept.popitem(last=False)
        return wanted

    def forget(self, address: str) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[0] == address]:
                del self._kept[key]

    def _part(self, address: str, number: int, size: int) -> Future[bytes]:
        key = address, number
        found = self._kept.pop(key, None)
        if found is None or (found.done() and found.exception() is not None):
            first = number * AHEAD
            found = self._readers.submit(read_part, address, first, min(first + AHEAD, size))
        self._kept[key] = found
        return found


_NEAR = _Near()


class _ReadAhead(io.RawIOBase):
    """The next part is fetched while this one is used."""

    def __init__(self, address: str) -> None:
        self._address, self._size = address, size_of(address)
        self._place, self._first, self._part = 0, 0, b""
        self._readers = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[bytes]] | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        if self._place >= self._size:
            return 0
        if not self._first <= self._place < self._first + len(self._part):
            self._fetch(self._place)
        start = self._place - self._first
        found = self._part[start : start + len(buffer)]
        if not found:
            raise StoreError(self._address, f"it ended before its {self._size} bytes")
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _fetch(self, first: int) -> None:
        if self._next is not None and self._next[0] == first:
            self._part = self._next[1].result()
        else:
            self._part = read_part(self._address, first, min(first + AHEAD, self._size))
        self._first, self._next = first, None
        following = first + len(self._part)
        if self._part and following < self._size:
            end = min(following + AHEAD, self._size)
            self._next = following, self._readers.submit(read_part, self._address, following, end)
