"""What is true of an everyday pair, as plain values: which things are seen where in each image, and what changed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spotchange.everyday.imaging.compositing import ImageBatch
from spotchange.everyday.kinds import KINDS, OBJECT_KINDS, SEVERAL, Facts, single_changes
from spotchange.everyday.language.colours import COLOURS
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.library import Library
from spotchange.everyday.scenes import HALF, THINGS, Scenes

LEAST_SEEN = 0.0006  # part of the image that a thing must show to be spoken of


def facts_of(library: Library, scenes: Scenes, images: ImageBatch) -> list[Facts]:
    """One dictionary a scene: `kind`, `target` (or None) and `things` with noun, colour and box in both images.

    Where several things change, `changes` lists kind and target of each, and `kind` is SEVERAL.
    """
    labels = images.label.cpu().numpy()
    objects, colours = scenes.things.object.cpu().numpy(), scenes.things.colour.cpu().numpy()
    nouns = library.nouns.cpu().numpy()
    names = (*everyday_nouns().names, None)
    grew = (scenes.things.height[:, 1] > scenes.things.height[:, 0]).tolist()
    found = []
    for scene, kinds in enumerate(scenes.kinds.tolist()):
        things = []
        for layer in range(THINGS):
            sides = [_seen(labels[scene, side], layer) for side in range(2)]
            if sides == [None, None]:
                continue
            things.append(
                {
                    "layer": layer,
                    "nouns": [names[nouns[objects[scene, side, layer]]] for side in range(2)],
                    "colours": [COLOURS[colours[scene, side, layer]] for side in range(2)],
                    "boxes": sides,
                }
            )
        places = {thing["layer"]: place for place, thing in enumerate(things)}
        changes: list[Facts] = [
            {"kind": KINDS[kind], "target": places.get(layer) if KINDS[kind] in OBJECT_KINDS else None}
            for layer, kind in enumerate(kinds)
            if kind or not layer
        ]
        if len(changes) == 1:
            found.append({**changes[0], "things": things})
        else:
            changes = [{**each, "target": None} if _misread(each, things, grew[scene]) else each for each in changes]
            found.append({"kind": SEVERAL, "changes": changes, "things": things})
    return found


def _misread(change: Facts, things: list[Facts], grew: list[bool]) -> bool:
    """Whether another change covers or uncovers a thing so far that it looks smaller although it grew, or larger."""
    if change["kind"] != "resize" or change["target"] is None:
        return False
    thing = things[change["target"]]
    before, after = (0 if box is None else box[2] * box[3] for box in thing["boxes"])
    return (after > before) != grew[thing["layer"]]


def visible(facts: Facts) -> bool:
    """Whether every change can be seen: what it is about shows in every image that it should."""
    return all(map(_visible, single_changes(facts)))


def _visible(facts: Facts) -> bool:
    if facts["kind"] not in OBJECT_KINDS:
        return True
    if facts["target"] is None:
        return False
    before, after = (box is not None for box in facts["things"][facts["target"]]["boxes"])
    return {"add": after and not before, "drop": before and not after}.get(facts["kind"], before and after)


def _seen(label: npt.NDArray[np.int8], layer: int) -> list[int] | None:
    """x, y, width, height in pixels of what is seen of a thing; None if that is too little."""
    down, across = np.nonzero(np.isin(label, (layer, HALF + layer)))
    if len(down) < LEAST_SEEN * label.size:
        return None
    left, top = int(across.min()), int(down.min())
    return [left, top, int(across.max()) + 1 - left, int(down.max()) + 1 - top]
