"""Items of a grid or a wrapping row that flowed on because one of them came, went or changed places.

Every later item moves by the same step, those at the end of a row back to the start of another: a few displacements
explain all that is new, or all that was there, and what they leave over is the item itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import place
from spotchange.comparison.layout.regions import around, groups
from spotchange.comparison.place.patches import ROUGH, Patch, patch_at
from spotchange.comparison.result import Finding, Mask
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

EXPLAINED = 0.82  # of the changed ink by displacements
ONE_SIDED = 0.08  # more of the ink unexplained on one side: that side has an item more
STEPS = 3  # displacements at most: along a row, to the next row, and a rounding
WORTH = 0.05  # of the ink that a displacement must explain
IN_ONE_PLACE = 0.3  # of what remains: the item itself
FEWEST, MOST = 2, 60  # places
MOST_CANDIDATES = 8
SMALLEST_STEP = 12  # pixels


def describe_flow(before: Pixels, after: Pixels, boxes: Sequence[Box], size: tuple[int, int]) -> list[Finding]:
    """One finding where places that differ exchange their content, or pass it on and gain or lose one item."""
    if not FEWEST <= len(boxes) <= MOST:
        return []
    patch = patch_at(before, after, around(boxes))
    inks = [patch.mask & _structured(pixels) for pixels in (patch.before, patch.after)]
    old, new = (int(np.count_nonzero(ink)) for ink in inks)
    if min(old, new) < 0.02 * max(old, new):
        return []
    steps, kept, came = _steps(patch, inks[0], inks[1], _candidates(patch, boxes))
    if not steps:
        return []
    lost, won = 1 - np.count_nonzero(kept) / old, 1 - np.count_nonzero(came) / new
    if min(lost, won) > 1 - EXPLAINED:
        return []
    if abs(lost - won) > ONE_SIDED and len(boxes) == FEWEST:
        return []  # one thing that moved over another leaves as much
    if abs(lost - won) > ONE_SIDED:
        return _one_item(patch, inks[0] & ~kept, 0, size) if lost > won else _one_item(patch, inks[1] & ~came, 1, size)
    return [_swapped(patch, size)] if max(lost, won) <= 1 - EXPLAINED and _opposed(steps) else []


def _structured(pixels: Pixels) -> Mask:
    """Where neighbours differ: flat ground of any colour says nothing about what moved."""
    near = np.ones((3, 3), np.uint8)
    result: Mask = (cv2.dilate(pixels, near) != cv2.erode(pixels, near)).any(axis=2)
    return result


def _candidates(patch: Patch, boxes: Sequence[Box]) -> list[tuple[int, int]]:
    """Displacements by which one changed place comes to lie on another, larger than a letter's."""
    steps = Counter(
        (other[0] - box[0], other[1] - box[1])
        for box in boxes
        for other in boxes
        if other is not box
        and abs(other[2] - box[2]) <= 0.4 * box[2] + 8
        and abs(other[3] - box[3]) <= 0.4 * box[3] + 8
    )
    found = patch.shift_candidates(2) + [step for step, _ in steps.most_common(MOST_CANDIDATES)]
    # From the end of a row to the start of the next, and back: across by all but one of the items.
    across = max((abs(right) for right, down in steps if not down), default=0)
    found += [step for step in steps if step[1] and abs(step[0]) == across and step[0] * step[1] < 0]
    far = [step for step in dict.fromkeys(found) if max(map(abs, step)) >= SMALLEST_STEP]
    return far[: 2 * MOST_CANDIDATES]


def _steps(
    patch: Patch, old: Mask, new: Mask, candidates: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], Mask, Mask]:
    """The displacements that together explain most, and the ink on either side that they explain."""
    options = [(shift, *_alike(patch, shift, old, new)) for shift in candidates]
    steps: list[tuple[int, int]] = []
    kept, came = np.zeros(old.shape, bool), np.zeros(old.shape, bool)
    total = np.count_nonzero(old) + np.count_nonzero(new)
    while options and len(steps) < STEPS:
        gains = [np.count_nonzero(each[1] & ~kept) + np.count_nonzero(each[2] & ~came) for each in options]
        best = int(np.argmax(gains))
        if gains[best] < WORTH * total:
            break
        shift, more_kept, more_came = options.pop(best)
        steps.append(shift)
        kept, came = kept | more_kept, came | more_came
    return steps, kept, came


def _alike(patch: Patch, shift: tuple[int, int], old: Mask, new: Mask) -> tuple[Mask, Mask]:
    """Ink of before found again in after at a displacement, and the other way round, fractions of a pixel aside."""
    right, down = shift
    return _found(patch.before, patch.after, old, right, down), _found(patch.after, patch.before, new, -right, -down)


def _found(one: Pixels, other: Pixels, ink: Mask, right: int, down: int) -> Mask:
    height, width = ink.shape
    rows, columns = slice(max(0, -down), height - max(0, down)), slice(max(0, -right), width - max(0, right))
    there = other[max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)]
    near = np.ones((3, 3), np.uint8)
    low, high = cv2.erode(there, near).astype(np.int16) - ROUGH, cv2.dilate(there, near).astype(np.int16) + ROUGH
    here = one[rows, columns]
    found = np.zeros(ink.shape, bool)
    found[rows, columns] = ((here >= low) & (here <= high)).all(axis=2)
    # Thin things agree with much by chance: what is the same agrees all over.
    return cv2.erode(found.view(np.uint8) | ~ink, np.ones((5, 5), np.uint8)).view(bool) & found & ink


def _opposed(steps: Sequence[tuple[int, int]]) -> bool:
    """Whether some go one way and others back."""
    return any(one[0] * two[0] + one[1] * two[1] < 0 for one in steps for two in steps)


def _swapped(patch: Patch, size: tuple[int, int]) -> Finding:
    return Finding(
        kind="swapped",
        sentence=f"two parts {place(patch.box_before, size)} exchanged places",
        boxes_before=(patch.box_before,),
        boxes_after=(patch.box_after,),
        pixels=patch.pixels,
    )


def _one_item(patch: Patch, left: Mask, side: int, size: tuple[int, int]) -> list[Finding]:
    """The item that came or went: what is left in one place."""
    solid = cv2.morphologyEx(left.view(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)).view(bool)
    found = groups(solid, across=40, down=40)
    if not found:
        return []
    ink = [np.count_nonzero(left[y : y + height, x : x + width]) for x, y, width, height in found]
    if max(ink) < IN_ONE_PLACE * np.count_nonzero(left):
        return []
    x, y, width, height = found[int(np.argmax(ink))]
    outer = patch.box_before if side == 0 else patch.box_after
    box = (x + outer[0] - patch.rim[0], y + outer[1] - patch.rim[1], width, height)
    kind, step = ("inserted", "on") if side else ("removed", "up")
    return [
        Finding(
            kind=kind,
            sentence=f"an item {place(box, size)} was {kind}; those after it moved {step} by one place",
            boxes_before=() if side else (box,),
            boxes_after=(box,) if side else (),
            pixels=patch.pixels,
        )
    ]
