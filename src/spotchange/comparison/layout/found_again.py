"""Things that went at one place and are found, pixel by pixel, at another: they moved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.place.patches import patch_at
from spotchange.comparison.result import Finding
from spotchange.results import Box

SAME = 0.7  # of the ink; where it moved to, it may lie over other things
SAME_SIZE = 4  # pixels


def found_again(
    findings: Sequence[Finding], before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], size: tuple[int, int]
) -> list[Finding]:
    """The findings, with each pair of a place that lost and a place that won the same content made one move."""
    left = list(findings)
    for gone in findings:
        if gone.kind != "disappeared" or len(gone.boxes_before) != 1:
            continue
        for came in findings:
            if came not in left or gone not in left or came.kind not in ("appeared", "text", "replaced", "recoloured"):
                continue
            shift = _shift(gone.boxes_before[0], came, before, after) if len(came.boxes_after) == 1 else None
            if shift is not None:
                left = [each for each in left if each is not gone and each is not came]
                left.append(_moved(gone, came, shift, size))
    return left


def _shift(
    box: Box, came: Finding, before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8]
) -> tuple[int, int] | None:
    new = came.boxes_after[0]
    if abs(new[2] - box[2]) > SAME_SIZE or abs(new[3] - box[3]) > SAME_SIZE:
        return None
    patch = patch_at(before, after, box)
    ink = patch.inks[0] & patch.mask
    rows, columns = np.nonzero(ink)
    rows, columns = rows + box[1] - patch.rim[1], columns + box[0] - patch.rim[0]
    for right, down in {
        (new[0] - box[0], new[1] - box[1]),
        (new[0] + new[2] - box[0] - box[2], new[1] + new[3] - box[1] - box[3]),
    }:
        there = rows + down, columns + right
        if min(there[0].min(), there[1].min()) < 0 or there[0].max() >= len(after) or there[1].max() >= after.shape[1]:
            continue
        if (before[rows, columns] == after[there]).all(axis=1).mean() >= SAME:
            return right, down
    return None


def _moved(gone: Finding, came: Finding, shift: tuple[int, int], size: tuple[int, int]) -> Finding:
    what = gone.sentence.split(" at the ")[0].split(" on the ")[0].split(" in the ")[0]
    return Finding(
        kind="moved",
        sentence=f"{what} {place(gone.boxes_before[0], size)} moved {distance(*shift)}",
        boxes_before=gone.boxes_before,
        boxes_after=came.boxes_after,
        pixels=gone.pixels + came.pixels,
        shift=shift,
    )
