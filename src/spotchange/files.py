"""Writing files and folders so that no reader ever meets half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotchange.errors import InputError


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it there on success, delete it on any failure.

    The temporary name keeps the suffix, because image and archive writers choose their format by it.
    """
    target = Path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}.", suffix=target.suffix)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, all or nothing."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    """Write `content`, all or nothing."""
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)


@contextmanager
def new_folder(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside `target` that takes its name on success and is deleted on any failure.

    A folder of that name stays usable until then and goes afterwards. With `durable` everything is flushed to the
    disk before the rename; if the machine dies between two renames, `recover_folder` puts the old folder back.
    """
    previous = target.with_name(f".{target.name}.previous")
    fresh: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_dir():
            raise InputError(f"cannot write the folder {target}: a file is in its place")
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.new-"))
        yield fresh
        fresh.chmod(0o777 & ~_umask())  # mkdtemp makes folders private
        if durable:
            for path in (*fresh.rglob("*"), fresh):
                _flush(path)
        if target.exists():
            target.rename(previous)
        fresh.rename(target)
        if durable:
            _flush(target.parent)
        shutil.rmtree(previous, ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Undo a replacement that was cut off: the old folder goes back to its place, half-written ones go away."""
    previous = target.with_name(f".{target.name}.previous")
    if previous.exists():
        if target.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(target)
    for unfinished in target.parent.glob(f".{target.name}.new-*"):
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def only_one_process(lock: Path) -> Iterator[None]:
    """Let one process of this machine do something while others wait for it."""
    try:
        import fcntl
    except ImportError:  # Windows: the others would only do the same work twice
        yield
        return
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
    lock.unlink(missing_ok=True)


def _umask() -> int:
    """The permissions that new files do not get; it can only be read by setting it."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _flush(path: Path) -> None:
    """Onto the disk, so that a rename never outruns its contents."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
