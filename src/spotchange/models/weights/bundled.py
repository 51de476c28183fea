"""The models that ship inside the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from spotchange.errors import ModelError
from spotchange.files import load_json, read_input

BUNDLED = "bundled"
EVERYDAY = "everyday"
_FOLDER = "spotchange-small"
_EVERYDAY_FOLDER = "spotchange-everyday"


def bundled_folder() -> Path:
    """Where the shipped model of scenes lies."""
    return _shipped(_FOLDER, instead_of=BUNDLED)


def everyday_folder() -> Path:
    """Where the shipped model of everyday images lies."""
    return _shipped(_EVERYDAY_FOLDER, instead_of=EVERYDAY)


def _shipped(name: str, *, instead_of: str) -> Path:
    folder = Path(str(resources.files("spotchange"))) / "assets" / name
    if not (folder / "config.json").exists():
        raise ModelError("this build of spotchange carries no model", hint=f"name a model folder, not {instead_of!r}")
    return folder


def knows_everyday(folder: Path) -> bool:
    """Whether a model folder holds a model of everyday images: one that takes a second look to name things."""
    try:
        config = load_json(read_input(folder / "config.json"))
        return bool(config["settings"]["heads"]["nouns"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # whoever loads it says what is wrong
