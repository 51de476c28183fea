"""Approving changes: the baseline folder is made to show what the other folder shows, file by file."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from spotchange.errors import InputError
from spotchange.files import write_bytes
from spotchange.regression.one_pair import DIFFERENT, ComparedFile
from spotchange.regression.plan import FolderPlan
from spotchange.regression.run import FolderComparison


def check_deletions(plan: FolderPlan, only: Sequence[str] = ()) -> None:
    """Refuse to empty a baseline: images that were not made this time (a failed job) look like removed ones."""
    kept = len(plan.identical) + len(plan.differing)
    deleted = sum(_chosen(name, only) for name in plan.missing)
    if deleted > kept:
        raise InputError(
            f"updating would delete {deleted} images of {plan.before} and keep {kept}",
            hint=f"is {plan.after} complete? --allow-delete deletes them",
        )


def update_baseline(comparison: FolderComparison, only: Sequence[str] = ()) -> list[ComparedFile]:
    """Copy changed and new images into the before folder, remove missing ones there.

    Args:
        comparison: what was found.
        only: globs of names to accept; empty: all.

    Returns:
        The files that were accepted; images that failed or look the same are left alone.
    """
    accepted = [each for each in comparison.files if each.status in DIFFERENT and _chosen(each.name, only)]
    for each in accepted:
        kept, current = comparison.before / each.name, comparison.after / each.name
        try:
            if each.status == "missing":
                kept.unlink()
            else:
                write_bytes(kept, current.read_bytes())
        except OSError as error:
            raise InputError(f"cannot update {kept}: {error.strerror or error}") from error
    return accepted


def _chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatchcase(name, pattern) for pattern in only)
