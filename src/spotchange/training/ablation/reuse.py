"""Finished runs of a table are kept: only those that the recipe of today would make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spotchange.config.training import Recipe
from spotchange.errors import InputError
from spotchange.models.weights.description import BEST
from spotchange.training.ablation.table import Job

# Where things lie, which a folder that was moved changes, and how an update is computed: other settings, same numbers.
_NO_MATTER = ("out", "stage.start_from", "stage.cuda_graph", "stage.compile")


def check_finished(jobs: list[Job]) -> None:
    """Refuse a folder with runs of other recipes: their numbers would stand in this table as its own."""
    for job in jobs:
        saved = job.out / BEST / "recipe.yaml"
        if job.summary is None or not saved.is_file():
            continue
        trained, wanted = Recipe.from_yaml(saved).model_dump(mode="json"), job.recipe.model_dump(mode="json")
        others = [f"{key} {old} (now {new})" for key, old, new in _apart(trained, wanted) if key not in _NO_MATTER]
        if others:
            more = f", and {len(others) - 3} more" if len(others) > 3 else ""
            raise InputError(
                f"{job.out} was trained by another recipe: {', '.join(others[:3])}{more}",
                hint="another --out, or remove that folder to train it anew",
            )


def _apart(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted key, old and new value, wherever they differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _apart(old.get(key), new.get(key), f"{at}.{key}".lstrip("."))
    elif old != new:
        yield at, old, new
