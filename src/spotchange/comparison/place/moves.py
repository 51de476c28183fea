"""The same content at another place of one cut: displaced, displaced over other things, or exchanged."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.layout.regions import around, bounds, moved_by
from spotchange.comparison.place.patches import Patch, outside, shifted, thing
from spotchange.comparison.result import Finding

LETTER = 12  # pixels of ink together
MOSTLY = 0.72
FREE, FEWEST_FREE = 0.85, 30  # of the ink that left and landed on flat ground, and pixels of it, for a move over others
NO_STEP = 3  # pixels: a smaller displacement is that of a line that was painted again


def moved_content(patch: Patch, size: tuple[int, int]) -> tuple[Finding | None, float]:
    """The same content displaced, or two parts exchanged, and the share of the pixels this explains."""
    old, new = (max(1, int(np.count_nonzero(ink & patch.mask))) for ink in patch.inks)
    best: tuple[float, tuple[int, int]] | None = None
    explained = []
    for shift in patch.shift_candidates():
        kept, came = patch.shifted_alike(*shift)
        explained.append((kept, came, shift))
        share = min(np.count_nonzero(kept) / old, np.count_nonzero(came) / new)
        if best is None or share > best[0]:
            best = (share, shift)
    if best is None:
        return None, 0.0
    over_others = best[0] < MOSTLY and _moved_over_others(patch, best[1])
    if best[0] >= MOSTLY or over_others:
        right, down = best[1]
        kept, came = patch.shifted_alike(right, down)
        box_old, box_new = bounds(kept), bounds(came)
        if box_old is None or box_new is None:
            return None, 0.0
        # What moved is as large at both places: the parts that happen to agree are widened to that.
        box_old, box_new = (
            around([box_old, moved_by(box_new, -right, -down)]),
            around([box_new, moved_by(box_old, right, down)]),
        )
        finding = Finding(
            kind="moved",
            sentence=f"{thing(patch, 0)} {place(patch.box_before, size)} moved {distance(right, down)}",
            boxes_before=(outside(box_old, patch, 0),),
            boxes_after=(outside(box_new, patch, 1),),
            pixels=patch.pixels,
            shift=(right, down),
        )
        return finding, 1.0 if over_others else best[0]
    swapped = _swapped(patch, size, explained, old, new)
    return swapped, 1.0 if swapped else 0.0


def _moved_over_others(patch: Patch, shift: tuple[int, int]) -> bool:
    """Whether a displacement explains all that came from flat ground or went to it.

    Where a thing lands on another, its pixels mix with those below; what it leaves and reaches freely tells.
    """
    if patch.ground is None or max(map(abs, shift)) < NO_STEP:
        return False
    kept, came = patch.shifted_alike(*shift)
    empty_before, empty_after = ~patch.inks[0], ~patch.inks[1]
    left = patch.inks[0] & patch.mask & empty_after & shifted(empty_before, -shift[0], -shift[1])
    reached = patch.inks[1] & patch.mask & empty_before
    return all(
        np.count_nonzero(free) >= FEWEST_FREE and np.count_nonzero(found & free) >= FREE * np.count_nonzero(free)
        for found, free in ((kept, left), (came, reached))
    )


def _swapped(patch: Patch, size: tuple[int, int], explained: list[Any], old: int, new: int) -> Finding | None:
    """Two displacements in opposite directions that together explain what one does not."""
    for number, (kept, came, shift) in enumerate(explained):
        for other_kept, other_came, other in explained[number + 1 :]:
            if shift[0] * other[0] + shift[1] * other[1] >= 0:
                continue
            share = min(np.count_nonzero(kept | other_kept) / old, np.count_nonzero(came | other_came) / new)
            if share >= 0.85:
                return Finding(
                    kind="swapped",
                    sentence=f"two parts {place(patch.box_before, size)} exchanged places",
                    boxes_before=(patch.box_before,),
                    boxes_after=(patch.box_after,),
                    pixels=patch.pixels,
                )
    return None


def letter_left(patch: Patch, shift: tuple[int, int] | None) -> bool:
    """Whether a displacement leaves as much ink in one place as a letter has."""
    if shift is None:
        return False
    for ink, found in zip(patch.inks, patch.shifted_alike(*shift), strict=True):
        left = (ink & patch.mask & ~found).view(np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(left, connectivity=8)
        if len(stats) > 1 and stats[1:, cv2.CC_STAT_AREA].max() >= LETTER:
            return True
    return False
