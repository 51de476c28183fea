"""Whether a place shows text, and which words of it changed, by the look of the words alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.regions import bounds, groups
from spotchange.comparison.place.colours import Colour
from spotchange.comparison.result import Mask
from spotchange.results import Box

LARGEST_STROKE = 11.0  # pixels; longer runs of ink are shapes, not letters
DENSEST = 0.75  # of the rectangle round bold letters
TALLEST_LINE = 90
SAME_WORD = 0.14  # of the ink; fractions of a pixel stay below, another letter does not
WORD_GAP, NARROWEST_GAP = 0.17, 3  # of the line's height, and pixels: what parts two words


@dataclass(frozen=True, eq=False)
class Word:
    """A word as a shape: where it is, how much ink each of its pixels has, and a number equal for equal shapes."""

    box: Box
    coverage: npt.NDArray[np.float32]  # (height, width) in [0, 1]
    key: int
    line: int
    strength: float  # of its darkest ink against the ground: levels over three channels


def looks_like_text(ink: Mask) -> bool:
    """Many short strokes with ground between them, in lines that are not too tall."""
    box = bounds(ink)
    if box is None:
        return False
    x, y, width, height = box
    inner = ink[y : y + height, x : x + width]
    share = float(inner.mean())
    if height < 5 or width < 3 or share > DENSEST or share < 0.03:
        return False
    starts = int(np.count_nonzero(inner[:, 1:] & ~inner[:, :-1])) + int(np.count_nonzero(inner[:, 0]))
    stroke = int(np.count_nonzero(inner)) / max(1, starts)
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


def words_of(pixels: npt.NDArray[np.uint8], ink: Mask, ground: Colour) -> list[Word]:
    """The words of a cut (height, width, 3) in reading order."""
    strength = np.abs(pixels.astype(np.float32) - np.array(ground, np.float32)).sum(axis=2)
    found = []
    for number, (top, bottom) in enumerate(text_lines(ink)):
        columns = np.flatnonzero(ink[top:bottom].any(axis=0))
        gap = max(NARROWEST_GAP, WORD_GAP * (bottom - top))
        breaks = np.flatnonzero(np.diff(columns) - 1 >= gap)
        lefts = [int(columns[0]), *(int(columns[n + 1]) for n in breaks)]
        rights = [*(int(columns[n]) + 1 for n in breaks), int(columns[-1]) + 1]
        for left, right in zip(lefts, rights, strict=True):
            inner = np.asarray(ink[top:bottom, left:right].any(axis=1))
            first, last = top + int(inner.argmax()), bottom - int(inner[::-1].argmax())
            shape = strength[first:last, left:right]
            key = hash((shape.shape, pixels[first:last, left:right].tobytes()))
            box = (left, first, right - left, last - first)
            strongest = max(1.0, float(shape.max()))
            found.append(Word(box, shape / strongest, key, number, strongest))
    return found


def shapes_of(pixels: npt.NDArray[np.uint8], ink: Mask, ground: Colour) -> list[Word]:
    """What lies apart from each other on the ground, text or not, in reading order."""
    strength = np.abs(pixels.astype(np.float32) - np.array(ground, np.float32)).sum(axis=2)
    found = []
    for left, top, width, height in groups(ink, across=6, down=4):
        shape = strength[top : top + height, left : left + width]
        key = hash((shape.shape, pixels[top : top + height, left : left + width].tobytes()))
        strongest = max(1.0, float(shape.max()))
        found.append(Word((left, top, width, height), shape / strongest, key, top // 24, strongest))
    return sorted(found, key=lambda word: (word.line, word.box[0]))


def changed_words(before: Sequence[Word], after: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """The words that are not the same on both sides, the rest of the text keeping its order."""
    keys = _common_keys(before, after)
    matcher = SequenceMatcher(None, [word.key for word in before], keys, autojunk=False)
    old: list[Word] = []
    new: list[Word] = []
    for tag, before_start, before_end, after_start, after_end in matcher.get_opcodes():
        if tag != "equal":
            old += before[before_start:before_end]
            new += [replace(word, key=key) for word, key in zip(after, keys, strict=True)][after_start:after_end]
    return old, new


def _common_keys(before: Sequence[Word], after: Sequence[Word]) -> list[int]:
    """Keys of the words of after, where one is painted at another fraction of a pixel that of the word in before."""
    known = {word.key for word in before}
    keys = []
    for word in after:
        twin = None
        if word.key not in known:
            twin = next((other for other in before if same_word(other, word)), None)
        keys.append(word.key if twin is None else twin.key)
    return keys


def same_word(one: Word, other: Word) -> bool:
    """Whether two words are the same letters at different fractions of a pixel: no place of them differs much.

    Every letter has a fraction of its own, so each pixel may be what its neighbours on the line are.
    """
    (height, width), (other_height, other_width) = one.coverage.shape, other.coverage.shape
    if abs(height - other_height) > 1 or abs(width - other_width) > 2:
        return False
    rows, columns = max(height, other_height) + 2, max(width, other_width) + 4
    first = np.zeros((rows, columns), np.float32)
    first[1 : 1 + height, 2 : 2 + width] = one.coverage
    first = cv2.blur(first, (3, 3))
    beside = np.ones((1, 3), np.uint8)
    least, most = cv2.erode(first, beside) - SAME_WORD, cv2.dilate(first, beside) + SAME_WORD
    for down in range(rows - other_height + 1):
        for right in range(1, columns - other_width):
            second = np.zeros((rows, columns), np.float32)
            second[down : down + other_height, right : right + other_width] = other.coverage
            second = cv2.blur(second, (3, 3))
            if not ((second < least) | (second > most)).any():
                return True
    return False
