"""A torchvision ResNet cut into a row of its children, as captioning programs save it, in transformers' names."""

from __future__ import annotations

import re

from torch import Tensor

from spotchange.errors import ModelError

# The first children: convolution, norm, ReLU and pooling (which have no weights), then the four stages.
_STEM = {"0": "convolution", "1": "normalization"}
_FIRST_STAGE = 4
_CHILD = re.compile(r"\w+\.(\d)\.(.+)")
_LAYER = re.compile(r"(\d+)\.(conv|bn)(\d)\.(\w+)")
_SHORTCUT = re.compile(r"(\d+)\.downsample\.([01])\.(\w+)")
_KINDS = {"conv": "convolution", "bn": "normalization", "0": "convolution", "1": "normalization"}


def from_children(state: dict[str, Tensor], *, source: str) -> dict[str, Tensor]:
    """Weights and statistics by transformers' names."""
    return {_name(name, source): value for name, value in state.items()}


def _name(name: str, source: str) -> str:
    child = _CHILD.fullmatch(name)
    number, rest = child.groups() if child else ("", "")
    if number in _STEM:
        return f"embedder.embedder.{_STEM[number]}.{rest}"
    stage = f"encoder.stages.{int(number or 0) - _FIRST_STAGE}.layers"
    if found := _LAYER.fullmatch(rest):
        block, kind, place, what = found.groups()
        return f"{stage}.{block}.layer.{int(place) - 1}.{_KINDS[kind]}.{what}"
    if found := _SHORTCUT.fullmatch(rest):
        block, kind, what = found.groups()
        return f"{stage}.{block}.shortcut.{_KINDS[kind]}.{what}"
    raise ModelError(f"{source}: {name} is no part of a ResNet")
