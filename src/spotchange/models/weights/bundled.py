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
    """Where the shipped model lies."""
    folder = Path(str(resources.files("spotchange"))) / "assets" / _FOLDER
    if not (folder / "config.json").exists():
        raise ModelError("this build of spotchange carries no model", hint="name a model folder instead of 'bundled'")
    return folder


def everyday_folder() -> Path | None:
    """Where the shipped model of everyday images lies; None in a build without one."""
    folder = Path(str(resources.files("spotchange"))) / "assets" / _EVERYDAY_FOLDER
    return folder if (folder / "config.json").exists() else None


def knows_everyday(folder: Path) -> bool:
    """Whether a model folder holds a model of everyday images: one that takes a second look to name things."""
    try:
        config = load_json(read_input(folder / "config.json"))
        return bool(config["settings"]["heads"]["nouns"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # whoever loads it says what is wrong
