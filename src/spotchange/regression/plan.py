"""Which image meets which: two folders paired by relative path, before anything is decoded."""

from __future__ import annotations

import filecmp
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from spotchange.errors import InputError
from spotchange.images import images_in
from spotchange.storage import is_address


@dataclass(frozen=True, kw_only=True)
class FolderPlan:
    """What stands where."""

    before: Path
    after: Path
    missing: tuple[str, ...]  # only in before
    new: tuple[str, ...]  # only in after
    identical: tuple[str, ...]  # the same bytes in both, on a disk
    differing: tuple[str, ...]  # in both, with other bytes, or in a store: whoever reads them decides

    def __len__(self) -> int:
        return len(self.missing) + len(self.new) + len(self.identical) + len(self.differing)


def plan_folders(before: Path, after: Path, *, include: Sequence[str] = ()) -> FolderPlan:
    """Pair two folders.

    Args:
        before: the folder as it should be.
        after: the folder as it is now.
        include: globs of relative paths; empty: everything.
    """
    for folder in (before, after):
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder")
    first, second = before.resolve(), after.resolve()
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise InputError(f"{before} and {after} must be two folders, neither inside the other")
    there, here = (_chosen(images_in(folder), include) for folder in (before, after))
    if not there | here:
        which = f" matches {', '.join(include)}" if include else ""
        raise InputError(f"no image in {before} or {after}{which}")
    both = sorted(there & here)
    same = {name for name in both if _same_bytes(before / name, after / name)}
    return FolderPlan(
        before=before,
        after=after,
        missing=tuple(sorted(there - here)),
        new=tuple(sorted(here - there)),
        identical=tuple(name for name in both if name in same),
        differing=tuple(name for name in both if name not in same),
    )


def _chosen(names: set[str], include: Sequence[str]) -> set[str]:
    return {name for name in names if not include or any(fnmatchcase(name, pattern) for pattern in include)}


def _same_bytes(first: Path, second: Path) -> bool:
    if is_address(first) or is_address(second):
        return False  # reading all of a store is work for many
    try:
        return filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False  # reading the image will say what is wrong with it
