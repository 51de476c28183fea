"""Addresses as paths: a `StorePath` has those parts of `Path` that this project uses."""

from __future__ import annotations

import fnmatch
import io
import os
import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from spotchange.errors import InputError
from spotchange.storage.fetchable import Fetchable
from spotchange.storage.reading import files_below, open_stream, read_part, read_whole, size_of
from spotchange.storage.stores import SCHEMES, tried

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def is_address(text: object) -> bool:
    """Whether something names what is no file on a disk: it lies in a store, or inside a tar shard."""
    return isinstance(text, Fetchable) or (isinstance(text, str) and _ADDRESS.match(text) is not None)


def as_place(place: str | os.PathLike[str]) -> Path:
    """A path, or what serves as one: a `StorePath`, a member of a shard."""
    if isinstance(place, Fetchable):
        return cast("Path", place)
    text = os.fspath(place)
    return cast("Path", StorePath(text)) if is_address(text) else Path(text)


def beside(folder: Path, name: str) -> Path:
    """A file that a row names: relative to the folder of its list, or an address of its own."""
    return as_place(name) if is_address(name) else folder / name


def file_size(place: Path) -> int:
    """Bytes of a file."""
    return size_of(str(place)) if isinstance(place, StorePath) else place.stat().st_size


def read_between(place: Path, start: int, end: int) -> bytes:
    """Some bytes of a file; fewer where it ends before."""
    if isinstance(place, StorePath):
        return read_part(str(place), start, end)
    with place.open("rb") as stream:
        stream.seek(start)
        return stream.read(end - start)


class StorePath(Fetchable):
    """One address in a store."""

    def __init__(self, address: str) -> None:
        found = _ADDRESS.match(address)
        scheme = found[1].lower() if found else ""
        if scheme not in SCHEMES:
            raise InputError(f"{address}: unknown kind of address", hint=f"use {', '.join(SCHEMES)} or a path")
        self._head, self._tail = f"{scheme}://", address[len(scheme) + 3 :].rstrip("/")
        if not self._tail:
            raise InputError(f"{address} names nothing")

    def __fspath__(self) -> str:
        return self._head + self._tail

    def __lt__(self, other: StorePath) -> bool:
        return str(self) < str(other)

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
        return bool(tried(str(self), lambda store, path: store.exists(path), fresh=True))

    def is_file(self) -> bool:
        return bool(tried(str(self), lambda store, path: store.isfile(path), fresh=True))

    def is_dir(self) -> bool:
        return bool(tried(str(self), lambda store, path: store.isdir(path), fresh=True))

    def is_relative_to(self, other: str | os.PathLike[str]) -> bool:
        """Whether this is the other, or lies below it."""
        return (str(self) + "/").startswith(os.fspath(other) + "/")

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """Files below that match, a `*` for each part of the path."""
        depth = pattern.count("/") + 1
        for name in files_below(str(self), depth=depth):
            if name.count("/") == depth - 1 and fnmatch.fnmatch(name, pattern):
                yield self / name

    def sizes(self) -> dict[str, int]:
        """Bytes of every file below, by its name relative to this."""
        return {name: int(facts.get("size") or 0) for name, facts in files_below(str(self)).items()}

    def _read(self) -> bytes:
        return read_whole(str(self))

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """A stream that reads ahead; writing is for `files.atomic_path`."""
        if mode != "rb":
            raise ValueError(f"a store's file cannot be opened with {mode!r}")
        return open_stream(str(self))

    def unlink(self, *, missing_ok: bool = False) -> None:
        try:
            tried(str(self), lambda store, path: store.rm_file(path))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_all(self) -> None:
        """This and everything below it, if there is anything."""
        if self.exists():
            tried(str(self), lambda store, path: store.rm(path, recursive=True))

    def version(self) -> str:
        """What changes with the file, as the store tells it."""
        return _version(tried(str(self), lambda store, path: store.info(path)))

    def listing(self) -> list[tuple[str, str]]:
        """Name and version of every file below, in order."""
        return [(name, _version(facts)) for name, facts in files_below(str(self)).items()]

    def download(self, target: Path) -> None:
        """Everything below into a folder here."""
        for below in files_below(str(self)):
            local = target / below
            local.parent.mkdir(parents=True, exist_ok=True)
            with (self / below).open() as far, local.open("wb") as near:
                shutil.copyfileobj(far, near)


def _version(facts: dict[str, Any]) -> str:
    names = ("ETag", "etag", "md5Hash", "content_md5", "blob_id", "LastModified", "last_modified")
    return f"{facts.get('size')} {next((facts[name] for name in names if facts.get(name)), '')}"
