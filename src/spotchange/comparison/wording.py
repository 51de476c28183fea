"""Text that changed: which words, and whether they read differently or only look different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.colours import unpack
from spotchange.comparison.options import Box
from spotchange.comparison.patches import Patch, patch_at
from spotchange.comparison.places import distance, place
from spotchange.comparison.regions import around, moved_by
from spotchange.comparison.result import Finding
from spotchange.comparison.textlike import Word, changed_words, looks_like_text, words_of

LONGEST_LINE = 600  # pixels to either side that are looked at for the rest of the line
PART_GAP = 0.75  # of the line's height: what parts two pieces of text, and no two words
ALIKE = 0.6  # correlation of two words that are the same in another style


@dataclass(frozen=True)
class Lines:
    """The words of the changed lines, in the pictures' own pixels."""

    before: list[Word]
    after: list[Word]
    old: list[Word]  # those of before that are not in after
    new: list[Word]


def describe_text(patch: Patch, size: tuple[int, int]) -> Finding | None:
    """What became of the text in a cut that reaches to the ends of its lines, or None if it shows no text."""
    if patch.ground is None or not all(looks_like_text(ink) for ink in patch.inks):
        return None
    lines = _lines(patch)
    if lines is None:
        return None
    if not lines.old and not lines.new:
        return _only_moved(patch, lines, size)
    if _exchanged(lines):
        box_old, box_new = around(word.box for word in lines.old), around(word.box for word in lines.new)
        sentence = f"words {place(patch.box_before, size)} exchanged places"
        return Finding(
            kind="swapped", sentence=sentence, boxes_before=(box_old,), boxes_after=(box_new,), pixels=patch.pixels
        )
    return _changed(patch, lines, size)


def whole_lines(before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], patch: Patch) -> Patch:
    """The cut widened to the ends of the piece of text it lies in."""
    x, y, width, height = patch.box_before
    offset = patch.box_after[1] - y
    if patch.ground is None:
        return patch
    left, right = max(0, x - LONGEST_LINE), min(before.shape[1], after.shape[1], x + width + LONGEST_LINE)
    wide = patch_at(before, after, (left, y, right - left, height), offset)
    inked = (wide.words[0] != patch.ground).any(axis=0) | (wide.words[1] != patch.ground).any(axis=0)
    gap = max(4, round(PART_GAP * min(height, 40)))
    start, end = x - left + wide.rim[0], x - left + width + wide.rim[0]
    while start > 0 and inked[max(0, start - gap) : start].any():
        start -= 1
    while end < len(inked) and inked[end : end + gap].any():
        end += 1
    new_left, new_right = left + start - wide.rim[0], left + end - wide.rim[0]
    new_left, new_right = max(new_left, 0), min(new_right, before.shape[1], after.shape[1])
    return patch_at(before, after, (new_left, y, new_right - new_left, height), offset)


def _lines(patch: Patch) -> Lines | None:
    assert patch.ground is not None
    sides = []
    for side, box in ((0, patch.box_before), (1, patch.box_after)):
        words = words_of((patch.before, patch.after)[side], patch.inks[side], unpack(patch.ground))
        right, down = box[0] - patch.rim[0], box[1] - patch.rim[1]
        sides.append([replace(word, box=moved_by(word.box, right, down)) for word in words])
    before, after = sides
    if not before or not after:
        return None
    old, new = changed_words(before, after)
    return Lines(before, after, old, new)


def _only_moved(patch: Patch, lines: Lines, size: tuple[int, int]) -> Finding | None:
    shifts = Counter(
        (new.box[0] - old.box[0], new.box[1] - old.box[1] - (patch.box_after[1] - patch.box_before[1]))
        for old, new in zip(lines.before, lines.after, strict=False)
    )
    shifts.pop((0, 0), None)
    if not shifts:
        return None
    (right, down), _ = shifts.most_common(1)[0]
    return Finding(
        kind="moved",
        sentence=f"text {place(patch.box_before, size)} moved {distance(right, down)}",
        boxes_before=(around(word.box for word in lines.before),),
        boxes_after=(around(word.box for word in lines.after),),
        pixels=patch.pixels,
        shift=(right, down),
    )


def _exchanged(lines: Lines) -> bool:
    """The same words on both sides in another order."""
    old, new = Counter(word.key for word in lines.old), Counter(word.key for word in lines.new)
    return bool(old) and sum((old & new).values()) >= 0.8 * max(sum(old.values()), sum(new.values()))


def _changed(patch: Patch, lines: Lines, size: tuple[int, int]) -> Finding:
    boxes = [
        _with_tail(changed, words, patch.mask, patch, side)
        for side, (changed, words) in enumerate(((lines.old, lines.before), (lines.new, lines.after)))
    ]
    where = place(patch.box_before, size)
    style = _same_in_another_style(lines.old, lines.new)
    if style is not None:
        kind, how = style
        sentence = f"the text {where} became {how}"
    elif not lines.old or not lines.new:
        kind = "inserted" if not lines.old else "removed"
        sentence = f"text was {kind} {where}"
    else:
        kind, sentence = "text", f"the text {where} changed"
    return Finding(kind=kind, sentence=sentence, boxes_before=boxes[0], boxes_after=boxes[1], pixels=patch.pixels)


def _with_tail(
    changed: Sequence[Word], words: Sequence[Word], mask: npt.NDArray[np.bool_], patch: Patch, side: int
) -> tuple[Box, ...]:
    """The changed words, cut to the difference, and the words after them that moved along in the same piece."""
    if not changed:
        return ()
    boxes = [word.box for word in changed]
    last = max(changed, key=lambda word: (word.line, word.box[0]))
    end = last.box[0] + last.box[2]
    for word in words:
        if word.line == last.line and word.box[0] >= end:
            if word.box[0] - end > PART_GAP * max(8, last.box[3]):
                break
            boxes.append(word.box)
            end = word.box[0] + word.box[2]
    outer = patch.box_before if side == 0 else patch.box_after
    x, y, width, height = around(boxes)
    down, right = outer[1] - patch.rim[1], outer[0] - patch.rim[0]
    differing = np.argwhere(
        mask[max(0, y - down - 2) : y - down + height + 2, max(0, x - right - 2) : x - right + width + 2]
    )
    if not len(differing):
        return ((x, y, width, height),)
    (top, left), (bottom, far) = differing.min(axis=0), differing.max(axis=0) + 1
    left, top = left + max(0, x - right - 2) + right, top + max(0, y - down - 2) + down
    return (
        (
            int(left),
            int(top),
            int(far + max(0, x - right - 2) + right - left),
            int(bottom + max(0, y - down - 2) + down - top),
        ),
    )


def _same_in_another_style(old: Sequence[Word], new: Sequence[Word]) -> tuple[str, str] | None:
    """Whether the words are the same letters, larger, smaller, bolder or lighter."""
    if len(old) != len(new) or not old or (len(old) == 1 and max(old[0].box[2], new[0].box[2]) < 1.6 * old[0].box[3]):
        return None
    alike, masses, heights = [], [], []
    for one, other in zip(old, new, strict=True):
        first, second = one.coverage, other.coverage
        if min(first.shape) < 2 or min(second.shape) < 2:
            continue
        scaled = cv2.resize(first, (second.shape[1], second.shape[0]), interpolation=cv2.INTER_LINEAR)
        alike.append(float(np.corrcoef(scaled.ravel(), second.ravel())[0, 1]))
        masses.append(float(second.mean() / max(1e-6, first.mean())))
        heights.append(second.shape[0] / first.shape[0])
    if not alike or np.mean(np.array(alike) >= ALIKE) < 0.8:
        return None
    height, mass = float(np.median(heights)), float(np.median(masses))
    if abs(height - 1) > 0.08:
        return "resized", "larger" if height > 1 else "smaller"
    if mass > 1.08:
        return "restyled", "bolder"
    if mass < 0.93:
        return "restyled", "lighter in weight"
    return None
