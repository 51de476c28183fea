"""Writing a data set folder so that no reader ever meets half of one."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spotchange.data.metadata import METADATA, Row, list_splits, read_rows, write_rows
from spotchange.errors import DataError
from spotchange.files import new_folder


def hold_out(
    data_dir: str | os.PathLike[str], out: str | os.PathLike[str], *, share: float = 0.2, seed: int = 0
) -> dict[str, int]:
    """Write a new set whose `train` and `val` are both drawn from the old `train`; returns the pairs of each split.

    The old set's other splits go along as `official-val` and so on. Pairs of one scene stay together; images are
    links to the old set's.
    """
    if not 0 < share < 1:
        raise DataError(f"the share held out must lie between 0 and 1, not {share}")
    scenes = sorted({_scene(row) for row in read_rows(data_dir, "train")})
    random.Random(seed).shuffle(scenes)
    held = set(scenes[: round(share * len(scenes))])
    if not held or len(held) == len(scenes):
        raise DataError(f"a share of {share} of {len(scenes)} scenes leaves one side empty")
    with new_data_set(Path(out)) as building:
        counts = {}
        for split, wanted in (("train", False), ("val", True)):
            rows = (row for row in read_rows(data_dir, "train") if (_scene(row) in held) is wanted)
            counts[split] = write_rows(building / split / METADATA, _moved(rows, building / split))
        for split in list_splits(data_dir):
            if split != "train":
                folder = building / f"official-{split}"
                counts[folder.name] = write_rows(folder / METADATA, _moved(read_rows(data_dir, split), folder))
    return counts


def _scene(row: Row) -> str:
    return row.id if row.scene_id is None else f"scene {row.scene_id}"


def _moved(rows: Iterable[Row], folder: Path) -> Iterator[Row]:
    for row in rows:
        for path, name in (
            (row.before_path, row.before_file_name),
            (row.after_path, row.after_file_name),
            (row.mask_path, row.mask_file_name),
        ):
            if path is not None and name is not None:
                if os.path.isabs(name) or ".." in Path(name).parts:
                    raise DataError(f"row '{row.id}': {name} leaves the split's folder")
                place_image(path, folder / name)
        yield replace(row, folder=folder)


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


def place_image(path: Path, target: Path, *, copy: bool = False) -> None:
    """Link to an image, or copy it, byte for byte; one that was placed before stays."""
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
