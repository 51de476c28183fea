"""A batch of scenes as a struct of arrays: what the sampler fills, the renderer draws and the writer describes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

MAX_OBJECTS = 11  # ten placed at first, one more added

COLORS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
SHAPES = ("cube", "sphere", "cylinder")
MATERIALS = ("rubber", "metal")
SIZES = ("large", "small")
ATTRIBUTE_NAMES = ("color", "shape", "material", "size")
ATTRIBUTE_VALUES = (COLORS, SHAPES, MATERIALS, SIZES)
COLOR, SHAPE, MATERIAL, SIZE = range(4)

BEFORE, AFTER, SAME = range(3)  # the three images of a scene; SAME is the distractor


@dataclass(frozen=True, kw_only=True)
class SceneBatch:
    """S scenes; every array is numpy on the CPU or a torch tensor on a device, all of one kind.

    Version 0 is the scene before, version 1 after the change. Objects keep their slot; an empty
    slot has shape -1. `count` is one more than the last used slot.
    """

    scene_id: Any  # int64 (S,)
    count: Any  # int32 (S, 2)
    attributes: Any  # int8 (S, 2, MAX_OBJECTS, 4): color, shape, material, size
    placement: Any  # float32 (S, 2, MAX_OBJECTS, 3): x, y, theta
    camera: Any  # float32 (S, 3, 3): position for before, after, same
    lamps: Any  # float32 (S, 3, 3): offsets of key, back, fill from their places
    look: Any  # float32 (S, look.SIZE): see scenes/appearance.py
    change: Any  # int8 (S,): index into CHANGE_TYPES, never NONE
    target: Any  # int8 (S, 2): slot of the changed object before and after, -1 where absent

    def __len__(self) -> int:
        return len(self.scene_id)

    def __getitem__(self, index: Any) -> SceneBatch:
        """Select scenes by slice, mask or index array."""
        return SceneBatch(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def on_host(self) -> SceneBatch:
        """The same scenes as numpy arrays."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return SceneBatch(
            **{name: array if isinstance(array, np.ndarray) else array.cpu().numpy() for name, array in arrays.items()}
        )
