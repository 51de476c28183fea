"""Synthetic scenes of the CLEVR-Change world: sampled, rendered and written as data sets or streams.

Names are resolved on first use, so that importing the package does not cost the compiler that renders.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "SceneStream",
    "World",
    "generate_split",
    "visible_pixels",
]

_HOMES = {
    "SceneStream": "stream",
    "World": "sampler",
    "generate_split": "dataset",
    "visible_pixels": "rendering.renderer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spotchange.scenes' has no attribute {name!r}")
    return getattr(import_module(f"spotchange.scenes.{_HOMES[name]}"), name)
