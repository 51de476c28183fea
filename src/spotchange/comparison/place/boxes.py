"""Filled boxes, buttons and cards, that became larger or smaller: the same colour with another extent."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import place, with_article
from spotchange.comparison.layout.regions import around, moved_by
from spotchange.comparison.place.colours import name_of, pack, unpack
from spotchange.comparison.place.parts import describe_parts
from spotchange.comparison.place.patches import Patch
from spotchange.comparison.result import Finding
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

REACH = 420  # pixels round the difference in which the whole of a box is looked for
SOLID = 0.55  # of its rectangle a box must fill; the rest may be text
LARGEST = 0.5  # of the window: what covers more is the ground
SAME_EDGE = 2  # pixels
SMALLEST_CHANGE = 2  # pixels
SMALLEST = 14  # pixels of a side
TALLEST_BUTTON = 64
FILL, FILL_AMONG_OTHERS = 0.08, 0.02  # of the difference that a box's colour covers at least
EDGE = 4  # pixels of border and rounding outside the fill
_CAUSES = ("text", "inserted", "removed", "appeared", "disappeared", "restyled", "swapped", "resized")


def describe_box(
    before: Pixels, after: Pixels, old: Box, new: Box, size: tuple[int, int], *, alone: bool = True
) -> list[Finding]:
    """A box that grew or shrank at a changed place, given where it differs in both images, or what made it do so.

    `alone`: the difference must lie within the box; where rows were pushed, others may differ with it.
    """
    down = new[1] - old[1]
    windows = [_window(pixels, box) for pixels, box in ((before, old), (after, new))]
    for colour in _fills(before, after, old, new, least=FILL if alone else FILL_AMONG_OTHERS):
        first, second = _box_of(windows[0], colour, old, before), _box_of(windows[1], colour, new, after)
        if first is None or second is None or not _resized(first, moved_by(second, 0, -down)):
            continue
        if alone and not _within(old, around([first, moved_by(second, 0, -down)])):
            continue
        if not _edges_differ(around([old, moved_by(new, 0, -down)]), first, moved_by(second, 0, -down)):
            continue
        cause = describe_parts(_interiors(before, after, first, second, colour), size)
        if cause and cause[0].kind in _CAUSES and not (cause[0].kind == "text" and _flows_anew(first, second)):
            if max(first[3], second[3]) <= TALLEST_BUTTON and cause[0].kind in ("text", "restyled", "resized"):
                # A button is as wide as what it says: both are one change.
                return [replace(cause[0], boxes_before=(first,), boxes_after=(second,)), *cause[1:]]
            return cause
        became = "larger" if second[2] * second[3] > first[2] * first[3] else "smaller"
        extents = f"{first[2]}x{first[3]} to {second[2]}x{second[3]} pixels"
        finding = Finding(
            kind="resized",
            sentence=f"{with_article(name_of(unpack(colour)))} box {place(first, size)} became {became}: {extents}",
            boxes_before=(first,),
            boxes_after=(second,),
            pixels=abs(second[2] * second[3] - first[2] * first[3]),
        )
        return [finding]
    return []


def _flows_anew(old: Box, new: Box) -> bool:
    """Whether text inside a box is broken into other lines because the box has another width, not the reverse."""
    return max(old[3], new[3]) > TALLEST_BUTTON and abs(old[2] - new[2]) > SAME_EDGE


def _within(box: Box, outer: Box) -> bool:
    x, y, width, height = outer[0] - EDGE, outer[1] - EDGE, outer[2] + 2 * EDGE, outer[3] + 2 * EDGE
    return box[0] >= x and box[1] >= y and box[0] + box[2] <= x + width and box[1] + box[3] <= y + height


def _edges_differ(difference: Box, old: Box, new: Box) -> bool:
    """Whether every edge that moved lies within the difference: letters that part a fill do not resize its box."""
    for axis in (0, 1):
        start, end = difference[axis] - EDGE, difference[axis] + difference[axis + 2] + EDGE
        for edges in ((old[axis], new[axis]), (old[axis] + old[axis + 2], new[axis] + new[axis + 2])):
            if abs(edges[0] - edges[1]) > SAME_EDGE and not (start <= min(edges) and max(edges) <= end):
                return False
    return True


def _interiors(before: Pixels, after: Pixels, old: Box, new: Box, colour: int) -> Patch:
    """What is inside the box on both sides, on its own ground: other content there is why it has another size."""
    old, new = _inset(old), _inset(new)
    height, width = max(old[3], new[3]) + 2, max(old[2], new[2]) + 2
    cuts = []
    for pixels, (x, y, inner_width, inner_height) in ((before, old), (after, new)):
        canvas = np.empty((height, width, 3), np.uint8)
        canvas[:] = unpack(colour)
        canvas[1 : 1 + inner_height, 1 : 1 + inner_width] = pixels[y : y + inner_height, x : x + inner_width]
        cuts.append(canvas)
    return Patch(box_before=old, box_after=new, before=cuts[0], after=cuts[1], rim=(1, 1, width - 2, height - 2))


def _inset(box: Box) -> Box:
    """Without the corners, which may be round."""
    by = EDGE if min(box[2], box[3]) >= 4 * EDGE else 0
    return box[0] + by, box[1] + by, box[2] - 2 * by, box[3] - 2 * by


def _fills(before: Pixels, after: Pixels, old: Box, new: Box, *, least: float) -> list[int]:
    """Colours that fill much of the difference on either side."""
    found: list[int] = []
    for pixels, (x, y, width, height) in ((before, old), (after, new)):
        part = pack(pixels[y : y + height, x : x + width])
        values, counts = np.unique(part, return_counts=True)
        order = counts.argsort()[::-1][:4]
        found += [int(values[n]) for n in order if counts[n] >= least * part.size]
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
    kept, bordered = [], []
    for axis in (0, 1):
        start, end = new[axis] - old[axis], new[axis] + new[axis + 2] - old[axis] - old[axis + 2]
        kept.append(min(abs(start), abs(end), abs(start + end)) <= SAME_EDGE)
        bordered.append(start == -end and abs(start) <= SAME_EDGE)  # a border came inside, on all sides
    return all(kept) and not all(bordered)
