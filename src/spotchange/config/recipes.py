"""Recipes that travel with the package, found by name: `finetune`, `clip4idc/adapt`, `ablations/smoke`."""

from __future__ import annotations

import difflib
from pathlib import Path

from spotchange.errors import ConfigError

RECIPES = Path(__file__).resolve().parents[1] / "recipes"  # resolved: the package may lie behind a link
ABLATIONS = "ablations"


def list_recipes() -> dict[str, str]:
    """Every recipe's name with the sentence that introduces it (the comment below the command)."""
    return {_name(path): _introduction(path) for path in sorted(RECIPES.rglob("*.yaml"))}


def find_recipe(name: str, *, within: str = "") -> Path:
    """The file of a recipe: a path that exists, else a name of the package's own, with or without `.yaml`.

    Args:
        name: "finetune", "recipes/finetune.yaml" or any file.
        within: the folder of recipes that names are looked up in first.
    """
    if Path(name).is_file():
        return Path(name)
    short = name.removeprefix("recipes/").removesuffix(".yaml")
    for candidate in (f"{within}/{short}", short) if within else (short,):
        path = RECIPES / f"{candidate}.yaml"
        if path.is_file() and RECIPES in path.resolve().parents:
            return path
    known = list(list_recipes())
    close = difflib.get_close_matches(f"{within}/{short}" if within else short, known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(each.removeprefix(within + '/') for each in close)}? " if close else ""
    raise ConfigError(f"no recipe {name!r}", hint=f"{hint}`spotchange config list` names all; or give a file")


def _name(path: Path) -> str:
    return path.relative_to(RECIPES).with_suffix("").as_posix()


def _introduction(path: Path) -> str:
    comments = [line[1:].strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    return comments[1] if len(comments) > 1 else ""
