"""What is true of an everyday pair, as plain values: which things are seen where in each image, and what changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.everyday.imaging.compositing import ImageBatch
from spotchange.everyday.kinds import OBJECT_KINDS
from spotchange.everyday.language.colours import COLOURS
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.library import Library
from spotchange.everyday.scenes import HALF, LAYERS, TARGET, Scenes

LEAST_SEEN = 0.0006  # part of the image that a thing must show to be spoken of

Facts = dict[str, Any]


def facts_of(library: Library, scenes: Scenes, images: ImageBatch) -> list[Facts]:
    """One dictionary a scene: `kind`, `target` (or None) and `things` with noun, colour and box in both images."""
    labels = images.label.cpu().numpy()
    objects, colours = scenes.things.object.cpu().numpy(), scenes.things.colour.cpu().numpy()
    nouns = library.nouns.cpu().numpy()
    names = (*everyday_nouns().names, None)
    found = []
    for scene, kind in enumerate(scenes.kind_names()):
        has_place = kind in OBJECT_KINDS
        things = []
        for layer in range(LAYERS):
            sides = [_seen(labels[scene, side], layer, kind) for side in range(2)]
            if sides == [None, None] or layer == HALF:
                continue
            things.append(
                {
                    "layer": layer,
                    "nouns": [names[nouns[objects[scene, side, layer]]] for side in range(2)],
                    "colours": [COLOURS[colours[scene, side, layer]] for side in range(2)],
                    "boxes": sides,
                }
            )
        target = next((place for place, thing in enumerate(things) if thing["layer"] == TARGET), None)
        found.append({"kind": kind, "target": target if has_place else None, "things": things})
    return found


def visible(facts: Facts) -> bool:
    """Whether the change can be seen: what it is about shows in every image that it should."""
    if facts["kind"] not in OBJECT_KINDS:
        return True
    if facts["target"] is None:
        return False
    before, after = (box is not None for box in facts["things"][facts["target"]]["boxes"])
    return {"add": after and not before, "drop": before and not after}.get(facts["kind"], before and after)


def _seen(label: npt.NDArray[np.int8], layer: int, kind: str) -> list[int] | None:
    """x, y, width, height in pixels of what is seen of a thing; None if that is too little."""
    layers = (layer, HALF) if layer == TARGET and kind == "split" else (layer,)
    down, across = np.nonzero(np.isin(label, layers))
    if len(down) < LEAST_SEEN * label.size:
        return None
    left, top = int(across.min()), int(down.min())
    return [left, top, int(across.max()) + 1 - left, int(down.max()) + 1 - top]
