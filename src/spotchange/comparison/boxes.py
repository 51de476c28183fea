"""Filled boxes, buttons and cards, that became larger or smaller: the same colour with another extent."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.colours import name_of, pack, unpack
from spotchange.comparison.places import place, with_article
from spotchange.comparison.regions import moved_by
from spotchange.comparison.result import Finding
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

REACH = 420  # pixels round the difference in which the whole of a box is looked for
SOLID = 0.55  # of its rectangle a box must fill; the rest may be text
LARGEST = 0.5  # of the window: what covers more is the ground
SAME_EDGE = 2  # pixels
SMALLEST_CHANGE = 3  # pixels
SMALLEST = 14  # pixels of a side


def describe_box(before: Pixels, after: Pixels, old: Box, new: Box, size: tuple[int, int]) -> Finding | None:
    """The box that grew or shrank at a changed place, given where it differs in both pictures; or None."""
    down = new[1] - old[1]
    windows = [_window(pixels, box) for pixels, box in ((before, old), (after, new))]
    for colour in _fills(before, after, old, new):
        first, second = _box_of(windows[0], colour, old, before), _box_of(windows[1], colour, new, after)
        if first is None or second is None or not _resized(first, moved_by(second, 0, -down)):
            continue
        became = "larger" if second[2] * second[3] > first[2] * first[3] else "smaller"
        name = name_of(unpack(colour))
        extents = f"{first[2]}x{first[3]} to {second[2]}x{second[3]} pixels"
        return Finding(
            kind="resized",
            sentence=f"{with_article(name)} box {place(first, size)} became {became}: {extents}",
            boxes_before=(first,),
            boxes_after=(second,),
            pixels=abs(second[2] * second[3] - first[2] * first[3]),
        )
    return None


def _fills(before: Pixels, after: Pixels, old: Box, new: Box) -> list[int]:
    """Colours that fill much of the difference on either side."""
    found: list[int] = []
    for pixels, (x, y, width, height) in ((before, old), (after, new)):
        part = pack(pixels[y : y + height, x : x + width])
        values, counts = np.unique(part, return_counts=True)
        order = counts.argsort()[::-1][:3]
        found += [int(values[n]) for n in order if counts[n] >= 0.08 * part.size]
    return list(dict.fromkeys(found))


def _window(pixels: Pixels, box: Box) -> Box:
    x, y = max(0, box[0] - REACH), max(0, box[1] - REACH)
    right, bottom = min(pixels.shape[1], box[0] + box[2] + REACH), min(pixels.shape[0], box[1] + box[3] + REACH)
    return x, y, right - x, bottom - y


def _box_of(window: Box, colour: int, near: Box, pixels: Pixels) -> Box | None:
    """The rectangle of the largest solid piece of a colour that touches the difference, text inside it bridged."""
    x, y, width, height = window
    filled = (pack(pixels[y : y + height, x : x + width]) == colour).view(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(filled, connectivity=4)
    left, top = max(0, near[0] - x - 2), max(0, near[1] - y - 2)
    touching = np.unique(labels[top : near[1] - y + near[3] + 2, left : near[0] - x + near[2] + 2])
    best: Box | None = None
    for label in touching[touching > 0]:
        bx, by, bw, bh, area = (int(each) for each in stats[label])
        if area < SOLID * bw * bh or min(bw, bh) < SMALLEST or bw * bh > LARGEST * width * height:
            continue
        if bw >= width - 1 or bh >= height - 1:
            continue
        if best is None or bw * bh > best[2] * best[3]:
            best = (bx + x, by + y, bw, bh)
    return best


def _resized(old: Box, new: Box) -> bool:
    """Another extent with at least one edge of each direction kept, or the middle kept."""
    if max(abs(old[2] - new[2]), abs(old[3] - new[3])) < SMALLEST_CHANGE:
        return False
    kept = []
    for axis in (0, 1):
        start, end = new[axis] - old[axis], new[axis] + new[axis + 2] - old[axis] - old[axis + 2]
        kept.append(min(abs(start), abs(end), abs(start + end)) <= SAME_EDGE)
    return all(kept)
