"""The one place that writes to stores: whole files, large ones in parts, visible only when all of them have arrived."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from spotchange.errors import InputError
from spotchange.storage.path import StorePath
from spotchange.storage.reading import size_of
from spotchange.storage.stores import StoreError, StorePermissionError, tried

PROBE = ".spotchange-may-write"


def upload(local: Path, target: StorePath) -> None:
    """Put a file there."""
    if target.read_only:
        raise StorePermissionError(str(target), "web servers are only read")
    tried(str(target), lambda store, path: store.put_file(str(local), path))
    if size_of(str(target)) != local.stat().st_size:
        raise StoreError(str(target), "what arrived is not as long as what was sent")


def check_writable(folder: str | os.PathLike[str], option: str) -> None:
    """Refuse a folder that cannot be written, before any time is spent on what will be written there.

    Of a store nothing but writing tells: buckets may be listed by many and written by few.
    """
    if not isinstance(folder, StorePath):
        _check_on_disk(Path(folder))
        return
    if folder.read_only:
        raise InputError(f"{option} {folder}: web servers are only read")
    probe = folder / PROBE
    try:
        with tempfile.NamedTemporaryFile(prefix="spotchange-") as empty:
            upload(Path(empty.name), probe)
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error


def _check_on_disk(folder: Path) -> None:
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise InputError(f"cannot write {folder}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {folder}: {os.strerror(errno.EACCES)}")
