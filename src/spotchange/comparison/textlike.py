"""Whether a place shows text, and which words of it changed, by the look of the words alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from spotchange.comparison.options import Box
from spotchange.comparison.regions import bounds
from spotchange.comparison.result import Mask

LARGEST_STROKE = 11.0  # pixels; longer runs of ink are shapes, not letters
TALLEST_LINE = 90
WORD_GAP = 0.22  # of the line's height: what parts two words


@dataclass(frozen=True)
class Word:
    """A word as a shape: where it is and a number equal for equal shapes."""

    box: Box
    key: int
    line: int


def looks_like_text(ink: Mask) -> bool:
    """Many short strokes with ground between them, in lines that are not too tall."""
    box = bounds(ink)
    if box is None:
        return False
    x, y, width, height = box
    inner = ink[y : y + height, x : x + width]
    share = float(inner.mean())
    if height < 5 or width < 3 or share > 0.62 or share < 0.03:
        return False
    starts = np.count_nonzero(inner[:, 1:] & ~inner[:, :-1]) + np.count_nonzero(inner[:, 0])
    stroke = np.count_nonzero(inner) / max(1, starts)
    lines = text_lines(inner)
    tallest = max((bottom - top for top, bottom in lines), default=0)
    limit = max(LARGEST_STROKE, 0.3 * tallest)
    return bool(stroke <= limit and 4 <= tallest <= TALLEST_LINE and starts / height >= 0.8)


def text_lines(ink: Mask) -> list[tuple[int, int]]:
    """Rows of each line of ink, apart by at least one empty row; dots and accents join the line below them."""
    rows = np.flatnonzero(ink.any(axis=1))
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) > 1)
    tops = [int(rows[0]), *(int(rows[n + 1]) for n in breaks)]
    bottoms = [*(int(rows[n]) + 1 for n in breaks), int(rows[-1]) + 1]
    lines: list[tuple[int, int]] = []
    for top, bottom in zip(tops, bottoms, strict=True):
        if lines and (lines[-1][1] - lines[-1][0] <= 4 or bottom - top <= 3) and top - lines[-1][1] <= 3:
            lines[-1] = (lines[-1][0], bottom)
        else:
            lines.append((top, bottom))
    return lines


def words_of(pixels: npt.NDArray[np.uint32], ink: Mask) -> list[Word]:
    """The words of a cut in reading order."""
    found = []
    for number, (top, bottom) in enumerate(text_lines(ink)):
        columns = np.flatnonzero(ink[top:bottom].any(axis=0))
        gap = max(2.0, WORD_GAP * (bottom - top))
        breaks = np.flatnonzero(np.diff(columns) - 1 >= gap)
        lefts = [int(columns[0]), *(int(columns[n + 1]) for n in breaks)]
        rights = [*(int(columns[n]) + 1 for n in breaks), int(columns[-1]) + 1]
        for left, right in zip(lefts, rights, strict=True):
            inner = ink[top:bottom, left:right].any(axis=1)
            first, last = int(inner.argmax()), len(inner) - int(inner[::-1].argmax())
            shape = pixels[top + first : top + last, left:right]
            box = (left, top + first, right - left, last - first)
            found.append(Word(box, hash((shape.shape, shape.tobytes())), number))
    return found


def changed_words(before: Sequence[Word], after: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """The words that are not the same on both sides, the rest of the text keeping its order."""
    matcher = SequenceMatcher(None, [word.key for word in before], [word.key for word in after], autojunk=False)
    old: list[Word] = []
    new: list[Word] = []
    for tag, before_start, before_end, after_start, after_end in matcher.get_opcodes():
        if tag != "equal":
            old += before[before_start:before_end]
            new += after[after_start:after_end]
    return old, new
