"""Writing a data set folder so that no reader ever meets half of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotchange.errors import DataError
from spotchange.files import new_folder


def refuse_used_folder(out: Path) -> None:
    """A new data set goes where nothing is yet."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} is not empty", hint="choose a new folder for --out")


@contextmanager
def new_data_set(out: Path) -> Iterator[Path]:
    """Yield a folder that gets the name `out`, where nothing is yet, on success."""
    refuse_used_folder(out)
    with new_folder(out) as building:
        yield building


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
