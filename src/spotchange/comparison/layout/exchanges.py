"""What went at one place and is found at another: rows, parts that exchanged places, and single things that moved."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.gap import Gap
from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.layout.regions import around, bounds
from spotchange.comparison.layout.rows import row_keys
from spotchange.comparison.place.patches import patch_at
from spotchange.comparison.result import Finding
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

NEARBY = 12  # pixels round a place
SAME = 0.7  # of the ink; where it moved to, it may lie over other things
SAME_SIZE = 4  # pixels
SHOWN_AGAIN = 0.8  # correlation


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
            between = gap.outward(_passed(gap, lost, won))
            findings.append(_exchange(gap.outward(lost), gap.outward(won), between, size))
    return findings, left


def exchanged_findings(
    findings: Sequence[Finding], before: Pixels, after: Pixels, size: tuple[int, int]
) -> list[Finding]:
    """What was removed at one place and inserted at another, one of them pushing the rest: it changed its place."""
    left = list(findings)
    for gone in findings:
        for came in findings:
            if gone not in left or came not in left or not (gone.shift or came.shift):
                continue
            if gone.kind not in ("removed", "disappeared") or came.kind not in ("inserted", "appeared"):
                continue
            lost, won = gone.boxes_before, came.boxes_after
            if len(lost) == len(won) == 1 and _shown_again(before, lost[0], after, won[0]):
                left = [each for each in left if each is not gone and each is not came]
                left.append(_exchange(lost[0], won[0], around([lost[0], won[0]]), size))
    return left


def _shown_again(before: Pixels, lost: Box, after: Pixels, won: Box) -> bool:
    """Whether the content of one place of before is found in or near one of after."""
    x, y, width, height = won
    window = after[max(0, y - NEARBY) : y + height + NEARBY, max(0, x - NEARBY) : x + width + NEARBY]
    x, y, width, height = lost
    content = before[y : y + height, x : x + width]
    ink = bounds((content != content[0, 0]).any(axis=2))
    if ink is None or abs(won[3] - height) > 0.65 * max(won[3], height):
        return False
    # The rectangles reach as far as anything differs; the first half of the rows is the thing itself.
    content = content[ink[1] : ink[1] + ink[3], ink[0] : ink[0] + ink[2]]
    for part in (content, content[: max(6, len(content) // 2)]):
        if part.shape[0] <= window.shape[0] and part.shape[1] <= window.shape[1] and part.std() > 1:
            found = cv2.matchTemplate(window, part, cv2.TM_CCOEFF_NORMED)
            if found.max() >= SHOWN_AGAIN:
                return True
    return False


def _passed(gap: Gap, lost: Box, won: Box) -> Box:
    """All that differs from where rows were taken out to where they are now: what they passed moved as well."""
    union = around([lost, won])
    rows = slice(union[1], union[1] + union[3])
    columns = slice(gap.frame.left, gap.frame.right)
    one, other = gap.before[rows, columns], gap.after[rows, columns]
    height = min(len(one), len(other))
    box = bounds((one[:height] != other[:height]).any(axis=2))
    return around([union, (box[0] + gap.frame.left, box[1] + union[1], box[2], box[3])]) if box else union


def _exchange(lost: Box, won: Box, union: Box, size: tuple[int, int]) -> Finding:
    """`union`: both places and what lies between them."""
    right, down = won[0] - lost[0], won[1] - lost[1]
    if abs(right) <= 4 * lost[2] + 8 and abs(down) <= 4 * lost[3] + 8:
        sentence = f"two parts {place(union, size)} exchanged places"
        return Finding(
            kind="swapped", sentence=sentence, boxes_before=(union,), boxes_after=(union,), pixels=union[2] * union[3]
        )
    return Finding(
        kind="moved",
        sentence=f"a part of {lost[2]}x{lost[3]} pixels {place(lost, size)} moved {distance(right, down)}",
        boxes_before=(lost, union) if union != around([lost, won]) else (lost,),
        boxes_after=(won, union) if union != around([lost, won]) else (won,),
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


def found_again(findings: Sequence[Finding], before: Pixels, after: Pixels, size: tuple[int, int]) -> list[Finding]:
    """The findings, with each pair of a place that lost and a place that won the same content made one move."""
    left = list(findings)
    for gone in findings:
        if gone.kind != "disappeared" or len(gone.boxes_before) != 1:
            continue
        for came in findings:
            if came not in left or gone not in left or came.kind not in ("appeared", "text", "replaced", "recoloured"):
                continue
            shift = _shift_of(gone.boxes_before[0], came, before, after) if len(came.boxes_after) == 1 else None
            if shift is not None:
                left = [each for each in left if each is not gone and each is not came]
                left.append(_one_move(gone, came, shift, size))
    return left


def _shift_of(box: Box, came: Finding, before: Pixels, after: Pixels) -> tuple[int, int] | None:
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


def _one_move(gone: Finding, came: Finding, shift: tuple[int, int], size: tuple[int, int]) -> Finding:
    what = gone.sentence.split(" at the ")[0].split(" on the ")[0].split(" in the ")[0]
    return Finding(
        kind="moved",
        sentence=f"{what} {place(gone.boxes_before[0], size)} moved {distance(*shift)}",
        boxes_before=gone.boxes_before,
        boxes_after=came.boxes_after,
        pixels=gone.pixels + came.pixels,
        shift=shift,
    )
