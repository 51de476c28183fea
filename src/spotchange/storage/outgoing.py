"""Folders on their way to a store: lists that grow line by line lie here, finished files go there at once.

What a run adds to (rows, a journal) cannot be added to in a store. It lies in `~/.cache/spotchange/outgoing` until the
run is done and is published now and then, so that a run that stopped goes on here, or on another machine from what
was published last.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from spotchange.errors import InputError
from spotchange.storage.path import StorePath
from spotchange.storage.writing import check_writable, upload

SECONDS_BETWEEN = 60.0  # between two publications: a row list is sent whole


class Outgoing:
    """One folder that is being made: `here` for what grows, `there` for finished files."""

    def __init__(self, here: Path, there: Path, names: Sequence[str]) -> None:
        self.here, self.there = here, there
        self._names = names
        self._published = time.monotonic()

    def publish(self) -> None:
        """Put what has grown where it belongs, in the order of the names; nothing to do on a disk."""
        if not isinstance(self.there, StorePath):
            return
        for name in self._names:
            if (self.here / name).is_file():
                upload(self.here / name, self.there / name)
        self._published = time.monotonic()

    def publish_now_and_then(self) -> None:
        """The same, at most once a minute."""
        if time.monotonic() > self._published + SECONDS_BETWEEN:
            self.publish()


@contextmanager
def outgoing_folder(out: Path, names: Sequence[str], *, option: str = "--out") -> Iterator[Outgoing]:
    """A folder to write, on a disk or in a store; published when the block ends well.

    Args:
        out: the folder.
        names: files that only ever grow, in the order in which they are published: what names others comes last.
        option: what the user called the folder.
    """
    if not isinstance(out, StorePath):
        yield Outgoing(out, out, names)
        return
    check_writable(out, option)
    here = _kept_here(out)
    try:
        here.mkdir(parents=True, exist_ok=True)
        for name in names:
            _fetch_longer(out / name, here / name)
        outgoing = Outgoing(here, cast("Path", out), names)
        yield outgoing
        outgoing.publish()
    except OSError as error:
        if isinstance(error, InputError):
            raise InputError(f"cannot write {out}: {error.strerror}") from error
        raise
    shutil.rmtree(here, ignore_errors=True)


def _kept_here(out: StorePath) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "spotchange" / "outgoing" / hashlib.sha256(str(out).encode()).hexdigest()[:32]


def _fetch_longer(published: StorePath, kept: Path) -> None:
    """Files only grow, so the longer one is the later one: what another machine did meanwhile is not undone."""
    if not published.is_file():
        return
    content = published.read_bytes()
    if not kept.is_file() or kept.stat().st_size < len(content):
        fresh = kept.with_name(kept.name + ".fetched")
        fresh.write_bytes(content)
        fresh.replace(kept)
