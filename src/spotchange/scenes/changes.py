"""What changed in a scene, as numbers for training and as words for files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.pairs import ADD, CHANGE_TYPES, RECOLOR, RETEXTURE
from spotchange.scene import ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, COLOR, MATERIAL, SHAPE, SceneBatch

FACT_ORDER = ("shape", "size", "color", "material")


def as_tensors(batch: SceneBatch) -> SceneBatch:
    """The same scenes as torch tensors, without copying."""
    return SceneBatch(**{field.name: torch.as_tensor(getattr(batch, field.name)) for field in fields(SceneBatch)})


def answers(batch: SceneBatch) -> Tensor:
    """int64 (S, 6): the changed object's color, shape, material, size, its new color and new material, else -1.

    The object is described as it was before, an added one as it is after.
    """
    added, change = batch.change == ADD, batch.change
    slot = torch.where(added, batch.target[:, 1], batch.target[:, 0]).long()
    row = torch.arange(len(batch), device=slot.device)
    after = batch.attributes[row, 1, slot].long()  # (S, 4)
    old = batch.attributes[row, added.long(), slot].long()
    nothing = torch.full_like(slot, -1)
    new_color = torch.where(change == RECOLOR, after[:, COLOR], nothing)
    new_material = torch.where(change == RETEXTURE, after[:, MATERIAL], nothing)
    return torch.cat([old, new_color[:, None], new_material[:, None]], 1)


def describe_object(attributes: Any) -> dict[str, str]:
    """The four attributes of one object in words."""
    words = {
        name: values[int(code)]
        for name, values, code in zip(ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, attributes, strict=True)
    }
    return {name: words[name] for name in FACT_ORDER}


def facts(batch: SceneBatch, scene: int) -> dict[str, Any]:
    """The facts of one scene's change, as rows of a data set hold them; arrays must be numpy's."""
    version = 1 if batch.change[scene] == ADD else 0
    slot = int(batch.target[scene, version])
    objects = batch.attributes[scene, version]
    twins = int((objects == objects[slot]).all(1).sum())
    result: dict[str, Any] = {
        "target": describe_object(objects[slot]),
        "unique": twins == 1,
        "n_objects": int((batch.attributes[scene, 0, :, SHAPE] >= 0).sum()),
    }
    after = batch.attributes[scene, 1, slot]
    if batch.change[scene] == RECOLOR:
        result["new"] = ATTRIBUTE_VALUES[COLOR][after[COLOR]]
    elif batch.change[scene] == RETEXTURE:
        result["new"] = ATTRIBUTE_VALUES[MATERIAL][after[MATERIAL]]
    return result


def scene_json(batch: SceneBatch, scene: int, name: str) -> dict[str, Any]:
    """One scene whole: objects before and after, cameras and lamps, in words and rounded numbers."""
    versions = []
    for version in (0, 1):
        objects = []
        for slot in np.flatnonzero(batch.attributes[scene, version, :, SHAPE] >= 0):
            x, y, theta = (round(float(value), 5) for value in batch.placement[scene, version, slot])
            objects.append(describe_object(batch.attributes[scene, version, slot]) | {"theta": theta, "xy": [x, y]})
        versions.append(objects)
    cameras, lamps = (np.round(values[scene].astype(np.float64), 5).tolist() for values in (batch.camera, batch.lamps))
    return {
        "id": name,
        "change_type": CHANGE_TYPES[batch.change[scene]],
        "before": versions[0],
        "after": versions[1],
        "cameras": dict(zip(("before", "after", "same"), cameras, strict=True)),
        "lamp_offsets": dict(zip(("Lamp_Key", "Lamp_Back", "Lamp_Fill"), lamps, strict=True)),
    }
