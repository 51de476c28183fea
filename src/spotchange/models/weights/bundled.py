"""The model that ships inside the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from spotchange.errors import ModelError

BUNDLED = "bundled"
_FOLDER = "spotchange-small"


def bundled_folder() -> Path:
    """Where the shipped model lies."""
    folder = Path(str(resources.files("spotchange"))) / "assets" / _FOLDER
    if not (folder / "config.json").exists():
        raise ModelError("this build of spotchange carries no model", hint="name a model folder instead of 'bundled'")
    return folder
