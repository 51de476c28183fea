"""Writing a data set folder so that no reader ever meets half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotchange.errors import DataError


def refuse_used_folder(out: Path) -> None:
    """A new data set goes where nothing is yet."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is not empty", hint="choose a new folder for --out")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `out`; it gets that name on success and is deleted on any failure."""
    refuse_used_folder(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise DataError(f"cannot write {out}: {error.strerror or error}") from error
    try:
        yield building
        # mkdtemp makes folders private; give the result the permissions a plain mkdir() would.
        umask = os.umask(0)
        os.umask(umask)
        building.chmod(0o777 & ~umask)
        if out.exists():
            out.rmdir()
        os.replace(building, out)
    except OSError as error:
        raise DataError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def place_picture(path: Path, target: Path, *, copy: bool = False) -> None:
    """Link to a picture, or copy it, byte for byte; one that was placed before stays."""
    if os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copyfile(path, target)
        return
    try:
        target.symlink_to(path.resolve())
    except OSError:
        os.link(path.resolve(), target)  # where symbolic links are not allowed
