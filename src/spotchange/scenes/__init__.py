"""Worlds, pictures, sentences and their checker, made from nothing.

Names are resolved on first use: the vocabulary must not cost the compiler that draws scenes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "CHANGE_TYPES",
    "SceneBatch",
    "SceneStream",
    "StreamBatch",
    "World",
    "captions_text",
    "check",
    "generate_split",
    "visible_pixels",
    "write_captions",
]

_HOMES = {
    "CHANGE_TYPES": "arrays",
    "SceneBatch": "arrays",
    "SceneStream": "stream",
    "StreamBatch": "stream",
    "World": "world",
    "captions_text": "writer",
    "check": "checker",
    "generate_split": "generate",
    "visible_pixels": "render",
    "write_captions": "writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spotchange.scenes' has no attribute {name!r}")
    return getattr(import_module(f"spotchange.scenes.{_HOMES[name]}"), name)
