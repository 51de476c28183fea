"""Rows that were removed at one place and inserted at another: parts that moved or exchanged places."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from spotchange.comparison.layout.gap import Gap
from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.layout.regions import around, bounds
from spotchange.comparison.layout.rows import row_keys
from spotchange.comparison.result import Finding
from spotchange.results import Box


def exchanged(gaps: Sequence[Gap], size: tuple[int, int]) -> tuple[list[Finding], list[Gap]]:
    """Rows removed at one place and inserted at another moved; the findings, and the gaps that remain."""
    left = list(gaps)
    findings = []
    for gap in gaps:
        for other in gaps:
            if gap not in left or other not in left or gap.growth >= 0 or other.growth <= 0:
                continue
            lost, won = gap.content(0), other.content(1)
            if lost is None or won is None or abs(lost[3] - won[3]) > 0.2 * max(lost[3], won[3]) + 2:
                continue
            if _same_rows(gap, other) < 0.7:
                continue
            left = [each for each in left if each is not gap and each is not other]
            findings.append(_exchange(gap.outward(lost), gap.outward(won), size))
    return findings, left


def _exchange(lost: Box, won: Box, size: tuple[int, int]) -> Finding:
    right, down = won[0] - lost[0], won[1] - lost[1]
    union = around([lost, won])
    if abs(right) <= 4 * lost[2] + 8 and abs(down) <= 4 * lost[3] + 8:
        sentence = f"two parts {place(union, size)} exchanged places"
        return Finding(
            kind="swapped", sentence=sentence, boxes_before=(union,), boxes_after=(union,), pixels=union[2] * union[3]
        )
    return Finding(
        kind="moved",
        sentence=f"a part of {lost[2]}x{lost[3]} pixels {place(lost, size)} moved {distance(right, down)}",
        boxes_before=(lost,),
        boxes_after=(won,),
        pixels=lost[2] * lost[3],
        shift=(right, down),
    )


def _same_rows(gap: Gap, other: Gap) -> float:
    """How far what was removed here is what was inserted there: the share of rows, or the likeness of the shapes."""
    if (gap.frame.left, gap.frame.right) != (other.frame.left, other.frame.right):
        return 0.0
    lost = row_keys(gap.words[0])[(gap.words[0] != gap.ground).any(axis=1)]
    won = row_keys(other.words[1])[(other.words[1] != other.ground).any(axis=1)]
    share = float(np.isin(lost, won).mean()) if len(lost) else 0.0
    return max(share, _likeness(gap, other))


def _likeness(gap: Gap, other: Gap) -> float:
    """Correlation of the ink, which survives being painted at another fraction of a pixel."""
    cuts = []
    for each, side in ((gap, 0), (other, 1)):
        box = bounds(each.words[side] != each.ground)
        if box is None:
            return 0.0
        x, y, width, height = box
        ink = (each.words[side] != each.ground)[y : y + height, x : x + width]
        cuts.append(cv2.blur(ink.astype(np.float32), (5, 5)))
    (height, width), (other_height, other_width) = cuts[0].shape, cuts[1].shape
    if abs(height - other_height) > 2 or abs(width - other_width) > 3:
        return 0.0
    rows, columns = min(height, other_height), min(width, other_width)
    one, two = (cut[:rows, :columns].ravel() for cut in cuts)
    return float(np.corrcoef(one, two)[0, 1]) if min(one.std(), two.std()) > 1e-3 else 0.0
