"""One writer at a time: locks that end with the process that holds them, however it ends."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spotchange.errors import InputError
from spotchange.storage import StorePath


@contextmanager
def only_one_process(lock: Path) -> Iterator[None]:
    """Let one process of this machine do something while others wait for it."""
    from filelock import FileLock

    with FileLock(lock):
        yield
        _remove(lock)


@contextmanager
def one_writer(target: Path) -> Iterator[None]:
    """Be the only one that writes a folder or file for the time of the block.

    Raises:
        InputError: says which process writes it now.
    """
    from filelock import FileLock, Timeout

    if isinstance(target, StorePath):  # stores have no locks: at least nobody else on this machine
        name = hashlib.sha256(str(target).encode()).hexdigest()[:32]
        target = Path(tempfile.gettempdir()) / f"spotchange-{name}"
    lock, writer = (target.with_name(f".{target.name}.{kind}") for kind in ("lock", "writer"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock, timeout=0)
        held.acquire()
    except Timeout:
        raise InputError(
            f"{target} is being written by {_told(writer)}", hint="wait until it is done, or choose another --out"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    try:
        with suppress(OSError):  # only for the message above
            writer.write_text(_who(), encoding="utf-8")
        yield
    finally:
        _remove(writer, lock)
        held.release()


def _remove(*files: Path) -> None:
    """While the lock is held, so that whoever waits for the removed file finds out and takes the new one."""
    for file in files:
        with suppress(OSError):  # Windows does not remove what is open
            file.unlink()


def _who() -> str:
    verb = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    return f"process {os.getpid()} on {socket.gethostname()} ({verb})"


def _told(writer: Path) -> str:
    try:
        return writer.read_text(encoding="utf-8")[:200] or "another process"
    except (OSError, ValueError):
        return "another process"
