"""Does the heat map look at what changed? The pointing game, and how much of the heat lies on the change.

An image is scored where the change can be seen: before for drop, after for add, both for everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spotchange.images import image_size, read_image

if TYPE_CHECKING:
    from spotchange.data import Row
    from spotchange.data.metadata import PixelBox

Mask = NDArray[np.bool_]
JUDGED_SIDES = {"drop": (0,), "add": (1,)}
NAMES = ("pointing", "pointing, patch", "coverage")


def pointing_values(row: Row, heat: NDArray[np.float32] | None) -> dict[str, float]:
    """One pair's values; empty where there is no heat, nothing changed, or the place is unknown.

    "pointing": the peak of the heat map, scaled up smoothly to the image, lies inside the true mask in every image
    scored. "pointing, patch": the hottest patch touches the mask. "coverage": share of the heat inside it.
    """
    scored = None if heat is None else score_pair(row, heat)
    return {} if scored is None else dict(zip(NAMES, scored, strict=True))


def score_pair(row: Row, heat: NDArray[np.float32]) -> tuple[float, float, float] | None:
    """Pointing, patch pointing and coverage of one pair; None where nothing changed or the place is unknown."""
    if row.change_type == "none":
        return None
    masks = true_masks(row)
    sides = [
        score_image(heat[side], mask)
        for side in JUDGED_SIDES.get(row.change_type or "", (0, 1))
        if (mask := masks[side]) is not None and mask.any()
    ]
    if not sides:
        return None
    inside, touches, coverage = zip(*sides, strict=True)
    return float(all(inside)), float(all(touches)), float(np.mean(coverage))


def score_image(heat: NDArray[np.float32], mask: Mask) -> tuple[bool, bool, float]:
    """Peak inside the mask, hottest patch touching it, share of heat inside; for one image."""
    height, width = mask.shape
    scaled = np.asarray(Image.fromarray(_smoothed(heat)).resize((width, height), Image.Resampling.BICUBIC))
    peak = np.unravel_index(int(scaled.argmax()), scaled.shape)
    # Box filtering gives each patch the share of it that the mask covers.
    rows, columns = heat.shape
    covered = Image.fromarray(mask.astype(np.float32)).resize((columns, rows), Image.Resampling.BOX)
    share = np.asarray(covered).clip(0, 1)
    total = float(heat.sum())
    return (
        bool(mask[peak]),
        bool(share.flat[int(heat.argmax())] > 0),
        float((heat * share).sum()) / total if total > 0 else 0.0,
    )


def _smoothed(heat: NDArray[np.float32]) -> NDArray[np.float32]:
    """Heat weighed with its neighbours (a cubic B-spline's 1, 4, 1).

    A sure head gives every patch of the change the same heat. The peak of such a plateau is its middle; without
    weighing, it would be where the scaling overshoots, which is the rim.
    """
    around = np.pad(heat.astype(np.float32), 1, mode="edge")
    down = around[:-2] + 4 * around[1:-1] + around[2:]
    smoothed: NDArray[np.float32] = (down[:, :-2] + 4 * down[:, 1:-1] + down[:, 2:]) / 36
    return smoothed


def true_masks(row: Row) -> tuple[Mask | None, Mask | None]:
    """Where the change is in before and in after: the mask, cut to the boxes of each side where they are given.

    A row's mask covers the change in both images together, so the boxes say which part is which.
    """
    drawn = None
    if row.mask_path is not None:
        drawn = np.asarray(read_image(row.mask_path).convert("L")) > 0
    sides = ((row.before_path, row.before_boxes), (row.after_path, row.after_boxes))
    before, after = (
        drawn
        if boxes is None
        else _inside_boxes(boxes, drawn, drawn.shape if drawn is not None else image_size(path)[::-1])
        for path, boxes in sides
    )
    return before, after


def _inside_boxes(boxes: Sequence[PixelBox], drawn: Mask | None, shape: tuple[int, ...]) -> Mask:
    inside = np.zeros(shape, dtype=bool)
    for x, y, width, height in boxes:
        inside[max(0, round(y)) : round(y + height), max(0, round(x)) : round(x + width)] = True
    return inside if drawn is None else inside & drawn
