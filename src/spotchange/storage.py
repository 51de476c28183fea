"""Files in object stores and on web servers, through fsspec: s3://, gs://, az://, hf://, http(s)://.

`as_place` gives a `StorePath` for such an address and a `Path` for anything else, so that local files need nothing and
pay nothing. A `StorePath` has those parts of `Path` that this project uses. Reading goes through `read_bytes` and
`open`, writing through `files.atomic_path`; all of it is tried again when a store stumbles, and fails with the same
`OSError`s as a disk. Credentials are found where the store's own tools find them, and nowhere else.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import posixpath
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

from spotchange.errors import InputError, MissingExtraError

Result = TypeVar("Result")

# Address scheme -> extra that brings what reads it.
SCHEMES = {"s3": "s3", "gs": "gs", "az": "az", "abfs": "az", "hf": "train", "http": "http", "https": "http"}
TRIES = 5
FIRST_PAUSE = 0.2  # seconds; doubles with every further try
AHEAD = 8 * 2**20  # bytes read ahead while what came before is used
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "GatedRepoError")
_FINAL = (IsADirectoryError, NotADirectoryError, FileExistsError, ValueError, TypeError, NotImplementedError)


def is_address(text: object) -> bool:
    """Whether something names a file in a store rather than on a disk."""
    return isinstance(text, StorePath) or (isinstance(text, str) and _ADDRESS.match(text) is not None)


def as_place(place: str | os.PathLike[str]) -> Path:
    """A path, or a `StorePath`, which serves as one."""
    if isinstance(place, StorePath):
        return cast("Path", place)
    text = os.fspath(place)
    return cast("Path", StorePath(text)) if is_address(text) else Path(text)


def beside(folder: Path, name: str) -> Path:
    """A file that a row names: relative to the folder of its list, or an address of its own."""
    return as_place(name) if is_address(name) else folder / name


class StoreError(InputError, OSError):
    """What a disk would raise, and one clear line where nobody expects it."""

    def __init__(self, place: StorePath, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.strerror = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return InputError, (self.message,)


class StoreNotFoundError(StoreError, FileNotFoundError):
    """There is no such file, folder or bucket."""


class StorePermissionError(StoreError, PermissionError):
    """The store knows us and refuses, or does not know us."""


class StorePath(os.PathLike[str]):
    """One address in a store."""

    def __init__(self, address: str) -> None:
        found = _ADDRESS.match(address)
        scheme = found[1].lower() if found else ""
        if scheme not in SCHEMES:
            raise InputError(f"{address}: unknown kind of address", hint=f"use {', '.join(SCHEMES)} or a path")
        self._head, self._tail = f"{scheme}://", address[len(scheme) + 3 :].rstrip("/")
        if not self._tail:
            raise InputError(f"{address} names nothing")
        self._digest: bytes | None = None

    def __fspath__(self) -> str:
        return self._head + self._tail

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and str(self) == str(other)

    def __lt__(self, other: StorePath) -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str | os.PathLike[str]) -> StorePath:
        text = os.fspath(name)
        bucket = self._tail.partition("/")[0]
        joined = posixpath.normpath(posixpath.join(self._tail, text))
        if text.startswith("/") or joined.partition("/")[0] != bucket:
            raise InputError(
                f"{text!r} leaves {self}", hint="a list in a store names files of that store, or addresses"
            )
        return StorePath(self._head + joined)

    @property
    def read_only(self) -> bool:
        """Web servers are only read."""
        return self._head.startswith("http")

    @property
    def parent(self) -> StorePath:
        return StorePath(self._head + (posixpath.dirname(self._tail) or self._tail))

    @property
    def name(self) -> str:
        return posixpath.basename(self._tail)

    @property
    def stem(self) -> str:
        return posixpath.splitext(self.name)[0]

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self.name)[1]

    def with_name(self, name: str) -> StorePath:
        return StorePath(f"{self._head}{posixpath.dirname(self._tail)}/{name}")

    def resolve(self) -> StorePath:
        return self

    def exists(self) -> bool:
        return bool(self._try(lambda store, path: store.exists(path)))

    def is_file(self) -> bool:
        return bool(self._try(lambda store, path: store.isfile(path)))

    def is_dir(self) -> bool:
        return bool(self._try(lambda store, path: store.isdir(path)))

    def size(self) -> int:
        """Bytes of the file."""
        size = self._try(lambda store, path: store.size(path))
        if size is None:
            raise StoreError(self, "the server does not say how long it is")
        return int(size)

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """Files below that match, a `*` for each part of the path."""
        depth = pattern.count("/") + 1
        found = self._try(lambda store, path: store.find(path, maxdepth=depth))
        for each in sorted(found):
            name = each[each.index(self._tail) + len(self._tail) + 1 :]
            if name.count("/") == depth - 1 and fnmatch.fnmatch(name, pattern):
                yield self / name

    def read_bytes(self) -> bytes:
        """The whole file; its checksum is remembered."""
        content = bytes(self._try(lambda store, path: store.cat_file(path)))
        self._digest = hashlib.sha256(content).digest()
        return content

    def digest(self) -> bytes:
        """SHA-256 of what was read, or is now."""
        if self._digest is None:
            self.read_bytes()
        assert self._digest is not None
        return self._digest

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """A stream that reads ahead; writing is for `files.atomic_path`."""
        if mode != "rb":
            raise ValueError(f"a store's file cannot be opened with {mode!r}")
        return io.BufferedReader(_ReadAhead(self), 2**20)

    def part(self, start: int, end: int) -> bytes:
        """Some bytes of the file."""
        content = bytes(self._try(lambda store, path: store.cat_file(path, start=start, end=end)))
        # A server that knows no ranges sends everything.
        return content[start:end] if len(content) > end - start else content

    def upload(self, local: Path) -> None:
        """Put a file there: large ones in parts, and visible only when all of them have arrived."""
        if self.read_only:
            raise StorePermissionError(self, "web servers are only read")
        self._try(lambda store, path: store.put_file(str(local), path))
        if self.size() != local.stat().st_size:
            raise StoreError(self, "what arrived is not as long as what was sent")

    def unlink(self, *, missing_ok: bool = False) -> None:
        try:
            self._try(lambda store, path: store.rm_file(path))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_all(self) -> None:
        """This and everything below it, if there is anything."""
        if self.exists():
            self._try(lambda store, path: store.rm(path, recursive=True))

    def version(self) -> str:
        """What changes with the file, as the store tells it."""
        return _version(self._try(lambda store, path: store.info(path)))

    def listing(self) -> list[tuple[str, str]]:
        """Name and version of every file below, in order."""
        found = self._try(lambda store, path: store.find(path, detail=True))
        return [(name, _version(facts)) for name, facts in sorted(found.items())]

    def download(self, target: Path) -> None:
        """Everything below into a folder here."""
        for name, _ in self.listing():
            below = name[name.index(self._tail) + len(self._tail) + 1 :]
            local = target / below
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes((self / below).read_bytes())

    def _try(self, do: Callable[[Any, str], Result]) -> Result:
        """Do something with the store; again, with pauses, unless it is clear that this would not help."""
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                store = _store_of(self._head)
                return do(store, str(self) if self.read_only else self._tail)
            except MissingExtraError:
                raise
            except Exception as error:
                self._raise_if_final(error)
                if not left:
                    raise StoreError(self, f"{_told(error)} (tried {TRIES} times)") from error
                time.sleep(pause)
                pause *= 2
        raise AssertionError("unreachable")

    def _raise_if_final(self, error: Exception) -> None:
        """Raise what a disk would raise, where trying again cannot help."""
        status = getattr(error, "status", None) or getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, FileNotFoundError) or status == 404:
            raise StoreNotFoundError(self, f"does not exist ({_told(error)})") from error
        if isinstance(error, PermissionError) or status in (401, 403) or type(error).__name__ in _NO_CREDENTIALS:
            raise StorePermissionError(self, f"no permission ({_told(error)})") from error
        if isinstance(error, _FINAL):
            raise StoreError(self, _told(error)) from error


class _ReadAhead(io.RawIOBase):
    """A store's file as a stream: the next part is fetched while this one is used."""

    def __init__(self, path: StorePath) -> None:
        self._path, self._size = path, path.size()
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
            raise StoreError(self._path, f"it ended before its {self._size} bytes")
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
            self._part = self._path.part(first, min(first + AHEAD, self._size))
        self._first, self._next = first, None
        following = first + len(self._part)
        if self._part and following < self._size:
            end = min(following + AHEAD, self._size)
            self._next = following, self._readers.submit(self._path.part, following, end)


def _store_of(head: str) -> Any:
    """fsspec's file system; one a process and kind, kept by fsspec itself."""
    scheme = head.removesuffix("://")
    try:
        import fsspec

        # What another process wrote a moment ago must be seen.
        return fsspec.filesystem(scheme, use_listings_cache=False)
    except ImportError as error:
        raise MissingExtraError(f"{head}...", extra=SCHEMES[scheme]) from error


def _version(facts: dict[str, Any]) -> str:
    names = ("ETag", "etag", "md5Hash", "content_md5", "blob_id", "LastModified", "last_modified")
    return f"{facts.get('size')} {next((facts[name] for name in names if facts.get(name)), '')}"


def _told(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
