"""Which differing pixels belong together, as rectangles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.result import Mask
from spotchange.results import Box

# Pixels between neighbours that still belong together: words of one line, lines of one paragraph.
GAP_ACROSS, GAP_DOWN = 10, 12


@dataclass(frozen=True)
class Frame:
    """Rows of before and rows of after that are compared with each other, between two columns."""

    left: int
    right: int
    before_top: int
    before_bottom: int
    after_top: int
    after_bottom: int

    @property
    def offset(self) -> int:
        """Rows the content lies lower in after."""
        return self.after_top - self.before_top

    @property
    def before_rows(self) -> int:
        """Rows of before."""
        return self.before_bottom - self.before_top

    @property
    def after_rows(self) -> int:
        """Rows of after."""
        return self.after_bottom - self.after_top


def bounds(mask: Mask) -> Box | None:
    """The smallest rectangle round all that is set."""
    rows = np.flatnonzero(mask.any(axis=1))
    if not len(rows):
        return None
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    columns = np.flatnonzero(mask[top:bottom].any(axis=0))
    left, right = int(columns[0]), int(columns[-1]) + 1
    return left, top, right - left, bottom - top


def groups(mask: Mask, *, across: int = GAP_ACROSS, down: int = GAP_DOWN) -> list[Box]:
    """Rectangles round pixels that lie within `across` and `down` of each other, those that overlap joined."""
    outer = bounds(mask)
    if outer is None:
        return []
    x, y, width, height = outer
    reach_x, reach_y = (across + 1) // 2, (down + 1) // 2
    # Room on all sides, so that growing is the same on every side and can be taken back exactly.
    room = np.zeros((height + 2 * reach_y, width + 2 * reach_x), np.uint8)
    room[reach_y : reach_y + height, reach_x : reach_x + width] = mask[y : y + height, x : x + width]
    kernel = np.ones((2 * reach_y + 1, 2 * reach_x + 1), np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(cv2.dilate(room, kernel), connectivity=8)
    boxes = [
        (int(left) + x, int(top) + y, int(w) - 2 * reach_x, int(h) - 2 * reach_y) for left, top, w, h, _ in stats[1:]
    ]
    return joined(boxes)


def lines_joined(boxes: Iterable[Box], *, across: int = 90, tallest: int = 44) -> list[Box]:
    """Rectangles of one line of text, side by side at the same height, are made one."""
    left = sorted(boxes, key=lambda box: box[0])
    done: list[Box] = []
    for box in left:
        for number, other in enumerate(done):
            common = min(box[1] + box[3], other[1] + other[3]) - max(box[1], other[1])
            level = common >= 0.6 * max(box[3], other[3])
            if level and max(box[3], other[3]) <= tallest and box[0] - other[0] - other[2] <= across:
                done[number] = around([box, other])
                break
        else:
            done.append(box)
    return done


def joined(boxes: Iterable[Box]) -> list[Box]:
    """Rectangles that overlap are made one, until none do."""
    left = sorted(boxes, key=lambda box: -box[2] * box[3])
    done: list[Box] = []
    while left:
        box = left.pop(0)
        hit = next((other for other in done if overlap(other, box)), None)
        if hit is None:
            done.append(box)
        else:
            done.remove(hit)
            left.insert(0, around([hit, box]))
    return sorted(done, key=lambda box: (box[1], box[0]))


def overlap(one: Box, other: Box, *, margin: int = 0) -> bool:
    """Whether two rectangles share a pixel, or come within `margin` of it."""
    return (
        one[0] < other[0] + other[2] + margin
        and other[0] < one[0] + one[2] + margin
        and one[1] < other[1] + other[3] + margin
        and other[1] < one[1] + one[3] + margin
    )


def around(boxes: Iterable[Box]) -> Box:
    """The smallest rectangle round several."""
    corners = np.array([(x, y, x + width, y + height) for x, y, width, height in boxes])
    left, top = corners[:, :2].min(axis=0)
    right, bottom = corners[:, 2:].max(axis=0)
    return int(left), int(top), int(right - left), int(bottom - top)


def common(one: Box, other: Box) -> Box | None:
    """What two rectangles share."""
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[0] + one[2], other[0] + other[2]), min(one[1] + one[3], other[1] + other[3])
    return (left, top, right - left, bottom - top) if right > left and bottom > top else None


def moved_by(box: Box, right: int, down: int) -> Box:
    """The rectangle at another place."""
    return box[0] + right, box[1] + down, box[2], box[3]


def cut(pixels: npt.NDArray[np.generic], box: Box) -> npt.NDArray[np.generic]:
    """The part of an array of rows and columns inside a rectangle."""
    x, y, width, height = box
    return pixels[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]


def column_bands(mask: Mask, *, gap: int = 12) -> list[tuple[int, int]]:
    """Ranges of columns with differences, apart by at least `gap` columns without any."""
    columns = np.flatnonzero(mask.any(axis=0))
    if not len(columns):
        return []
    breaks = np.flatnonzero(np.diff(columns) > gap)
    starts = np.concatenate([[0], breaks + 1])
    ends = np.concatenate([breaks, [len(columns) - 1]])
    return [(int(columns[start]), int(columns[end]) + 1) for start, end in zip(starts, ends, strict=True)]
