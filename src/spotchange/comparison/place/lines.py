"""The part of one line of text that changed, between what both lines begin and end with.

Words are parted by gaps, and in small type a gap is a matter of a fraction of a pixel: the same line painted a
little further on has other words. What both lines have in common at their ends does not depend on gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.regions import around
from spotchange.comparison.place.textlike import NARROWEST_GAP, WORD_GAP, Word

Coverage = npt.NDArray[np.float32]  # (height, width) in [0, 1]

SIDEWAYS, UPWARD = 1, 3  # pixels by which the common ends may lie elsewhere: fractions, and a line that grew
SAME_LETTERS = 0.18  # of the ink; over a whole line some letters fall on worse fractions than those of a word


def changed_span(before: Sequence[Word], after: Sequence[Word]) -> tuple[list[Word], list[Word]] | None:
    """The changed words of two single lines as one word a side, cut at gaps; None if they are not single lines."""
    if not before or not after or {word.line for word in (*before, *after)} != {before[0].line}:
        return None
    strongest = max(word.strength for word in (*before, *after))
    one, other = _line(before, strongest), _line(after, strongest)
    head = _common(one[::-1, ::-1], other[::-1, ::-1])
    tail = _common(one, other)
    shorter = min(one.shape[1], other.shape[1])
    if head + tail >= shorter:  # the same letters: which of them is the one too many, nobody can tell
        tail = max(0, shorter - head)
    found = []
    for line, words in ((one, before), (other, after)):
        start, end = _at_gaps(line, head, line.shape[1] - tail)
        found.append(_cut(line, words, start, end))
    return found[0], found[1]


def _line(words: Sequence[Word], strongest: float) -> Coverage:
    """All words of a line on one sheet, their ink against the strongest of both lines."""
    x, y, width, height = around(word.box for word in words)
    sheet = np.zeros((height, width), np.float32)
    for word in words:
        left, top, across, down = word.box
        sheet[top - y : top - y + down, left - x : left - x + across] = word.coverage * (word.strength / strongest)
    return sheet


def _common(one: Coverage, other: Coverage) -> int:
    """Columns at the right end that two lines share, letters at other fractions of a pixel counted as the same."""
    rows = max(len(one), len(other)) + 2 * UPWARD
    columns = min(one.shape[1], other.shape[1])
    room = SIDEWAYS + 1
    first = np.zeros((rows, columns + 2 * room), np.float32)
    first[UPWARD : UPWARD + len(one), room:-room] = one[:, -columns:]
    first = cv2.blur(first, (3, 3))
    beside = np.ones((1, 3), np.uint8)
    least, most = cv2.erode(first, beside) - SAME_LETTERS, cv2.dilate(first, beside) + SAME_LETTERS
    longest = 0
    for down in range(rows - len(other) + 1):
        for right in range(-SIDEWAYS, SIDEWAYS + 1):
            second = np.zeros_like(first)
            start = room + right
            second[down : down + len(other), start : start + columns] = other[:, -columns:]
            second = cv2.blur(second, (3, 3))
            bad = np.flatnonzero(((second < least) | (second > most)).any(axis=0))
            longest = max(longest, columns if not len(bad) else columns + room - 1 - int(bad[-1]))
    return int(max(0, min(longest, columns)))


def _at_gaps(line: Coverage, start: int, end: int) -> tuple[int, int]:
    """A range of columns widened to the next gaps between words, and without empty columns at its ends."""
    empty: npt.NDArray[np.bool_] = np.asarray(~(line > 0).any(axis=0))
    gap = round(max(NARROWEST_GAP, WORD_GAP * len(line)))
    while start > 0 and not empty[max(0, start - gap) : start].all():
        start -= 1
    while end < len(empty) and not empty[end : end + gap].all():
        end += 1
    inked = np.flatnonzero(~empty[start:end])
    return (start + int(inked[0]), start + int(inked[-1]) + 1) if len(inked) else (start, start)


def _cut(line: Coverage, words: Sequence[Word], start: int, end: int) -> list[Word]:
    """A range of columns of a line as one word; none if it is empty."""
    if end <= start:
        return []
    x, y, _, _ = around(word.box for word in words)
    part = line[:, start:end]
    rows = np.flatnonzero((part > 0).any(axis=1))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    shape = part[top:bottom]
    return [
        replace(
            words[0],
            box=(x + start, y + top, end - start, bottom - top),
            coverage=shape / max(1e-6, float(shape.max())),
            key=hash((shape.shape, shape.tobytes())),
        )
    ]
