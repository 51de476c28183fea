"""A scene of everyday things before and after: what stands where, from which camera, in which light. No pixels yet.

Places and sizes are parts of the image's side, x to the right and y down; a thing stands on its lower edge.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from spotchange.everyday.kinds import OBJECT_KINDS

OTHERS = 7  # things besides the first, at most
THINGS = OTHERS + 1
TARGET = 0  # the thing that changes; where several do, the first of them
HALF = THINGS  # the second piece of thing 0 stands here, that of thing 1 behind it, and so on


@dataclass(frozen=True, kw_only=True)
class Things:
    """What is pasted: (scenes, 2 images, layers) each: things, those that change first, then their second pieces."""

    on: Tensor  # bool
    view: Tensor  # int64: into the library's views
    object: Tensor  # int64: into the library's objects
    x: Tensor  # middle
    y: Tensor  # middle
    width: Tensor
    height: Tensor
    angle: Tensor  # radians
    flipped: Tensor  # bool: left and right exchanged
    cut_low: Tensor  # part of the width that is shown: from here
    cut_high: Tensor  # to here
    paint: Tensor  # (scenes, 2, layers, 3): a colour, 0 to 1
    painted: Tensor  # how much of it
    colour: Tensor  # int64: into COLOURS, after painting
    gain: Tensor  # how bright

    @property
    def bottom(self) -> Tensor:
        return self.y + self.height / 2

    def in_order(self, order: Tensor) -> Things:
        """Layers of each image taken as `order` (scenes, 2, layers) says."""
        return Things(**{each.name: _taken(getattr(self, each.name), order) for each in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Camera, light and the way to the file: (scenes, 2 images) each, unless it says otherwise."""

    camera: Tensor  # (scenes, 2, 8): from the image's place to the scene's, a projective map without its last one
    gain: Tensor
    contrast: Tensor
    saturation: Tensor
    balance: Tensor  # (scenes, 2, 3)
    slope: Tensor  # (scenes, 2, 2): light falls off across the image
    shade: Tensor  # (scenes, 2, 4): a large soft shadow: x, y, radius, darkness
    veil: Tensor  # (scenes, 2, 4): a colour laid over everything, and how much of it
    blur: Tensor  # 0 to 3
    noise: Tensor
    coarse: Tensor  # how coarsely blocks of 8 x 8 are rounded, as JPEG does; 0: not at all


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """Scenes on one device."""

    numbers: Tensor  # int64 (scenes,)
    seed: int
    kinds: Tensor  # int64 (scenes, changes): into KINDS, for each of the first things; 0 for those that stay
    things: Things
    looks: Looks
    background: Tensor  # int64 (scenes,)
    window: Tensor  # (scenes, 4): x, y, width, height of the background that is shown
    mirrored_background: Tensor  # bool (scenes,)
    light: Tensor  # (scenes, 3): shear, length and darkness of cast shadows
    contact: Tensor  # (scenes,): darkness under things

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def kind(self) -> Tensor:
        """(scenes,): of the first thing, or of the whole picture."""
        return self.kinds[:, 0]

    @property
    def changing(self) -> Tensor:
        """bool (scenes, layers): the things that change, and their second pieces."""
        things = (self.kinds >= 1) & (self.kinds <= len(OBJECT_KINDS))
        staying = things.new_zeros(len(things), THINGS - things.shape[1])
        return torch.cat([things, staying, things], dim=1)

    def rows(self, chosen: Any) -> Scenes:
        """Some of the scenes."""
        values: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Things | Looks):
                value = type(value)(**{part.name: getattr(value, part.name)[chosen] for part in fields(value)})
            elif isinstance(value, Tensor):
                value = value[chosen]
            values[each.name] = value
        return Scenes(**values)


def _taken(values: Tensor, order: Tensor) -> Tensor:
    if values.ndim == 4:
        return values.gather(2, order[..., None].expand(-1, -1, -1, values.shape[3]))
    return values.gather(2, order)


def stack_images(before: Tensor, after: Tensor) -> Tensor:
    """Two of (scenes, ...) to (scenes, 2, ...)."""
    return torch.stack([before, after], dim=1)
