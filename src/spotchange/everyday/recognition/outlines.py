"""The thing's own pixels at a changed place, before and after: how large, where, in how many pieces.

A pixel is the thing's own if its colour is hardly seen round the place.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.everyday.recognition.traces import Mask, Pixels, Traces

Corners = npt.NDArray[np.floating]

_ROOM = 0.2  # of the box, round it, that shows the ground
_RARE = 0.03  # part of the ground that has a colour (or a neighbour of it) at most
_PIECE = 0.15  # of the largest piece's size that a further one must have
_FEWEST = 6  # pixels of a thing that has a size
_SIZES = ("wider", "higher", "aspect before", "aspect after", "aside", "lower", "bottom")
OUTLINE_SIGNS = ("own before", "own after", "own more", "own shared", "pieces before", "pieces after", *_SIZES)


def outline_signs(traces: Traces, box: Corners) -> dict[str, float]:
    """Of a place: parts of it that are the thing's own on each side, and how its extent changed."""
    rows, columns = traces.cut(box, room=_ROOM)
    mask = traces.mask[rows, columns].view(np.uint8)
    near = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    ground = cv2.dilate(near, np.ones((5, 5), np.uint8)) == 0
    if ground.sum() < 30:
        ground = near == 0 if (near == 0).sum() >= 10 else np.ones_like(ground)
    own = [_own(each[rows, columns], ground) & (near > 0) for each in traces.images]
    shares = [float(each.sum() / max(1, int(near.sum()))) for each in own]
    signs = {
        "own before": shares[0],
        "own after": shares[1],
        "own more": float(np.log((shares[1] + 0.05) / (shares[0] + 0.05))),
        "own shared": float((own[0] & own[1]).sum() / max(1, int((own[0] | own[1]).sum()))),
        "pieces before": _pieces(own[0]),
        "pieces after": _pieces(own[1]),
    }
    return signs | _sizes(own[0], own[1])


def _own(pixels: Pixels, ground: Mask) -> Mask:
    """Pixels of colours that the ground hardly has, each channel in sixteen steps."""
    levels = (pixels >> 4).astype(np.int64)
    colours = (levels[..., 0] * 16 + levels[..., 1]) * 16 + levels[..., 2]
    counts = np.bincount(colours[ground], minlength=16**3).reshape(16, 16, 16).astype(np.float32)
    total = max(1.0, float(counts.sum()))
    for axis in range(3):
        counts = counts + np.roll(counts, 1, axis) + np.roll(counts, -1, axis)
    rare: Mask = counts.ravel()[colours] < _RARE * total
    return rare


def _pieces(mask: Mask) -> float:
    count, _, stats, _ = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=8)
    if count < 2:
        return 0.0
    areas = stats[1:, cv2.CC_STAT_AREA]
    return float(min(4, int((areas > _PIECE * areas.max()).sum())))


def _sizes(before: Mask, after: Mask) -> dict[str, float]:
    boxes = [_extent(each) for each in (before, after)]
    if boxes[0] is None or boxes[1] is None:
        return dict.fromkeys(_SIZES, 0.0)
    sides = [each[2:] - each[:2] for each in boxes if each is not None]
    size = float(np.sqrt(sides[0].prod()))
    aside, lower = (boxes[1][:2] + boxes[1][2:] - boxes[0][:2] - boxes[0][2:]) / 2 / size
    return {
        "wider": float(np.log(sides[1][0] / sides[0][0])),
        "higher": float(np.log(sides[1][1] / sides[0][1])),
        "aspect before": float(np.log(sides[0][0] / sides[0][1])),
        "aspect after": float(np.log(sides[1][0] / sides[1][1])),
        "aside": float(abs(aside)),
        "lower": float(lower),
        "bottom": float((boxes[1][3] - boxes[0][3]) / size),
    }


def _extent(mask: Mask) -> npt.NDArray[np.float64] | None:
    """Left, top, right, bottom of nearly all of it; None for next to nothing."""
    down, across = np.nonzero(mask)
    if len(down) < _FEWEST:
        return None
    low, high = ([np.quantile(each, part) for each in (across, down)] for part in (0.02, 0.98))
    return np.array([*low, high[0] + 1, high[1] + 1], np.float64)
