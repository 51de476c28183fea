"""Rectangles told by their outline: a border that came or changed, a box that lay over other things."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import place, with_article
from spotchange.comparison.place.colours import change_of, most_common, name_of, unpack
from spotchange.comparison.place.patches import Patch
from spotchange.comparison.result import Finding, Mask
from spotchange.results import Box

BORDER = 2  # pixels
MOSTLY = 0.72  # of a side, or of a rectangle, that differs
A_THIRD, HALF = 0.33, 0.5  # of a rectangle, and of its outline, that must differ where another may lie over it
CROSSED = 0.12  # of a rectangle's outline, where something lies under it
SEEN, UNSEEN = 0.9, 0.45  # of an outline that is an edge


def describe_border(patch: Patch, size: tuple[int, int]) -> Finding | None:
    """Only the rim of a rectangle differs: a border came, went or has another colour."""
    _, _, width, height = patch.box_before
    x, y = patch.rim[:2]
    if min(width, height) <= 4 * BORDER or patch.box_before[2:] != patch.box_after[2:]:
        return None
    difference = patch.mask[y : y + height, x : x + width]
    if difference[BORDER:-BORDER, BORDER:-BORDER].any() or not _outlined(difference):
        return None
    old, new = (words[y : y + height, x : x + width][difference] for words in patch.words)
    names = change_of(*(unpack(most_common(each)[0]) for each in (old, new)))
    return Finding(
        kind="recoloured",
        sentence=f"a border {place(patch.box_before, size)} changed from {names[0]} to {names[1]}",
        boxes_before=(patch.box_before,),
        boxes_after=(patch.box_after,),
        pixels=patch.pixels,
        colours=names,
    )


def _outlined(difference: Mask) -> bool:
    """Whether every side of the rectangle differs for most of its length."""
    bands = (difference[:BORDER], difference[-BORDER:], difference[:, :BORDER].T, difference[:, -BORDER:].T)
    return all(band.any(axis=0).mean() > MOSTLY for band in bands)


def describe_covered(patch: Patch, size: tuple[int, int]) -> Finding | None:
    """A rectangle whose outline is seen in one image only lay over what the other shows: it came or went."""
    _, _, width, height = patch.box_before
    x, y = patch.rim[:2]
    if min(width, height) < 8 or patch.box_before[2:] != patch.box_after[2:]:
        return None
    if x < 1 or y < 1 or x + width >= patch.mask.shape[1] or y + height >= patch.mask.shape[0]:
        return None  # at the rim of the image nothing lies outside to compare with
    if np.count_nonzero(patch.mask[y : y + height, x : x + width]) < A_THIRD * width * height:
        return None
    # Only where the outline differs it tells: another box may lie over a corner of this one.
    outline = _outline(patch.mask, (x, y, width, height))
    if outline.mean() < HALF or _ring_share(patch, (x, y, width, height)) < CROSSED:
        return None  # on flat ground nothing shows what lay above
    seen = [float(_edges(words, (x, y, width, height))[outline].mean()) for words in patch.words]
    if min(seen) > UNSEEN or max(seen) < SEEN:
        return None
    box, gone = patch.box_before, seen[0] > seen[1]
    inner = patch.words[0 if gone else 1][y : y + height, x : x + width]
    what = f"{with_article(name_of(unpack(most_common(inner)[0])))} box"
    sentence = f"{what} {place(box, size)} disappeared" if gone else f"{what} appeared {place(box, size)}"
    return Finding(
        kind="disappeared" if gone else "appeared",
        sentence=sentence,
        boxes_before=(box,) if gone else (),
        boxes_after=() if gone else (box,),
        pixels=patch.pixels,
    )


def _ring_share(patch: Patch, box: Box) -> float:
    """How much of what lies just outside a rectangle is not flat ground."""
    x, y, width, height = box
    words = patch.words[0]
    ring = [
        words[y - 1, x : x + width],
        words[y + height, x : x + width],
        words[y : y + height, x - 1],
        words[y : y + height, x + width],
    ]
    return 1.0 - most_common(np.concatenate(ring))[1]


def _outline(mask: Mask, box: Box) -> npt.NDArray[np.bool_]:
    """Which pixels of a rectangle's outline are set: left, right, top and bottom, one after the other."""
    x, y, width, height = box
    rows, columns = slice(y, y + height), slice(x, x + width)
    return np.concatenate([mask[rows, x], mask[rows, x + width - 1], mask[y, columns], mask[y + height - 1, columns]])


def _edges(words: npt.NDArray[np.uint32], box: Box) -> npt.NDArray[np.bool_]:
    """Where a rectangle's outline is an edge: pixels just inside that differ from those just outside."""
    x, y, width, height = box
    rows, columns = slice(y, y + height), slice(x, x + width)
    sides = (
        words[rows, x] != words[rows, x - 1],
        words[rows, x + width - 1] != words[rows, x + width],
        words[y, columns] != words[y - 1, columns],
        words[y + height - 1, columns] != words[y + height, columns],
    )
    return np.concatenate(sides)
