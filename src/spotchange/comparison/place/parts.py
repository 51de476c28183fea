"""The parts of a changed place, words or shapes on flat ground: which are the same on both sides, which are not.

Parts found again at another place have moved, whatever moved them; what happened is what remains. Words painted
at another fraction of a pixel count as the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.layout.regions import around, bounds, moved_by
from spotchange.comparison.place.colours import unpack
from spotchange.comparison.place.lines import changed_span
from spotchange.comparison.place.patches import Patch, patch_at
from spotchange.comparison.place.textlike import Word, changed_words, looks_like_text, shapes_of, words_of
from spotchange.comparison.result import Finding
from spotchange.results import Box

LONGEST_LINE = 600  # pixels to either side that are looked at for the rest of the line
PANEL = 12  # columns without any ground: wider than the stem of a letter
PART_GAP = 0.75  # of the line's height: what parts two pieces of text, and no two words
LONGEST_LABEL = 40  # heights of a line: about sixty letters; longer lines are running text
SAME_INK = 90  # levels over three channels; thin letters never reach their full colour
ALIKE = 0.6  # correlation of two words that are the same in another style
SAME_COLUMN, A_FEW_LETTERS = 0.1, 0.4  # coverage; of the columns of a word
WIDEST_BOLD = 1.14
MOST_PARTS = 400

Style = tuple[str, str, list[tuple[Word, Word]]]  # the kind, how it became, and the words


@dataclass(frozen=True)
class Parts:
    """The parts of a place, in the images' own pixels."""

    before: list[Word]
    after: list[Word]
    old: list[Word]  # those of before that are not in after
    new: list[Word]
    text: bool


def describe_parts(patch: Patch, size: tuple[int, int]) -> list[Finding]:
    """What became of the parts of a cut, which should reach to the ends of its lines; empty if they tell nothing."""
    if patch.ground is None:
        return []
    parts = _parts(patch)
    if parts is None:
        return []
    if not parts.old and not parts.new:
        moved = _only_moved(patch, parts, size)
        return [moved] if moved else []
    if _exchanged(parts):
        box_old, box_new = around(word.box for word in parts.old), around(word.box for word in parts.new)
        sentence = f"two parts {place(patch.box_before, size)} exchanged places"
        finding = Finding(
            kind="swapped", sentence=sentence, boxes_before=(box_old,), boxes_after=(box_new,), pixels=patch.pixels
        )
        return [finding]
    if parts.text:
        return [_changed_text(patch, parts, size)]
    return _changed_shapes(patch, parts, size)


def whole_lines(before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], patch: Patch) -> Patch:
    """The cut widened to the ends of the piece of text it lies in."""
    x, y, width, height = patch.box_before
    offset = patch.box_after[1] - y
    if patch.ground is None:
        return patch
    left, right = max(0, x - LONGEST_LINE), min(before.shape[1], after.shape[1], x + width + LONGEST_LINE)
    wide = patch_at(before, after, (left, y, right - left, height), offset)
    inked = (wide.words[0] != patch.ground).any(axis=0) | (wide.words[1] != patch.ground).any(axis=0)
    # A panel of another colour beside the text is no text.
    solid = (wide.words[0] != patch.ground).all(axis=0) & (wide.words[1] != patch.ground).all(axis=0)
    gap = max(4, round(PART_GAP * min(height, 40)))
    start, end = x - left + wide.rim[0], x - left + width + wide.rim[0]
    while start > 0 and inked[max(0, start - gap) : start].any() and not solid[max(0, start - PANEL) : start].all():
        start -= 1
    while end < len(inked) and inked[end : end + gap].any() and not solid[end : end + PANEL].all():
        end += 1
    new_left, new_right = left + start - wide.rim[0], left + end - wide.rim[0]
    new_left, new_right = max(new_left, 0), min(new_right, before.shape[1], after.shape[1])
    return patch_at(before, after, (new_left, y, new_right - new_left, height), offset)


def _parts(patch: Patch) -> Parts | None:
    assert patch.ground is not None
    text = all(looks_like_text(ink) for ink in patch.inks) and patch.one_ink
    find = words_of if text else shapes_of
    sides = []
    for side, box in ((0, patch.box_before), (1, patch.box_after)):
        words = find((patch.before, patch.after)[side], patch.inks[side], unpack(patch.ground))
        right, down = box[0] - patch.rim[0], box[1] - patch.rim[1]
        sides.append([replace(word, box=moved_by(word.box, right, down)) for word in words])
    before, after = sides
    if not before or not after or max(len(before), len(after)) > MOST_PARTS:
        return None
    old, new = changed_words(before, after)
    span = changed_span(before, after) if text and old and new else None
    if span is not None and _ink(span[0]) + _ink(span[1]) < _ink(old) + _ink(new):
        old, new = span
    if not text and len(old) == len(before) and len(new) == len(after):
        return None  # nothing is the same: the place as a whole tells as much
    return Parts(before, after, old, new, text)


def _ink(words: Sequence[Word]) -> int:
    """Columns that words cover."""
    return sum(word.box[2] for word in words)


def _only_moved(patch: Patch, parts: Parts, size: tuple[int, int]) -> Finding | None:
    shifts = Counter(
        (new.box[0] - old.box[0], new.box[1] - old.box[1] - (patch.box_after[1] - patch.box_before[1]))
        for old, new in zip(parts.before, parts.after, strict=False)
    )
    shifts.pop((0, 0), None)
    if not shifts:
        return None
    (right, down), _ = shifts.most_common(1)[0]
    return Finding(
        kind="moved",
        sentence=f"text {place(patch.box_before, size)} moved {distance(right, down)}",
        boxes_before=(around(word.box for word in parts.before),),
        boxes_after=(around(word.box for word in parts.after),),
        pixels=patch.pixels,
        shift=(right, down),
    )


def _exchanged(parts: Parts) -> bool:
    """The same words on both sides in another order."""
    old, new = Counter(word.key for word in parts.old), Counter(word.key for word in parts.new)
    return bool(old) and sum((old & new).values()) >= 0.8 * max(sum(old.values()), sum(new.values()))


def _changed_text(patch: Patch, parts: Parts, size: tuple[int, int]) -> Finding:
    style = _same_in_another_style(parts.old, parts.new)
    if style is not None:
        return _restyled(patch, style, size)
    where = place(patch.box_before, size)
    if not parts.old or not parts.new:
        kind = "inserted" if not parts.old else "removed"
        sentence = f"text was {kind} {where}"
    else:
        kind, sentence = "text", f"the text {where} changed"
    return Finding(
        kind=kind,
        sentence=sentence,
        boxes_before=_with_tail(parts.old, parts.before, patch, 0),
        boxes_after=_with_tail(parts.new, parts.after, patch, 1),
        pixels=patch.pixels,
    )


def _restyled(patch: Patch, style: Style, size: tuple[int, int]) -> Finding:
    kind, how, pairs = style
    return Finding(
        kind=kind,
        sentence=f"the text {place(patch.box_before, size)} became {how}",
        boxes_before=(around(old.box for old, _ in pairs),),
        boxes_after=(around(new.box for _, new in pairs),),
        pixels=patch.pixels,
    )


def _changed_shapes(patch: Patch, parts: Parts, size: tuple[int, int]) -> list[Finding]:
    """Shapes that are only on one side came or went; where both have such, the place itself tells more."""
    text = all(looks_like_text(ink & patch.mask) for ink in patch.inks) and patch.one_ink
    style = _same_in_another_style(parts.old, parts.new) if text else None
    if style is not None:
        return [_restyled(patch, style, size)]
    if parts.old and parts.new:
        return []
    side = int(not parts.old)
    box = around(word.box for word in (parts.new if side else parts.old))
    kind = "appeared" if side else "disappeared"
    others = _only_moved(patch, parts, size)
    also = f"; what was beside it moved {distance(*others.shift)}" if others and others.shift else ""
    return [
        Finding(
            kind=kind,
            sentence=f"a part {place(box, size)} {kind}{also}",
            boxes_before=() if side else (box,),
            boxes_after=(box,) if side else (),
            pixels=patch.pixels,
        )
    ]


def _with_tail(changed: Sequence[Word], words: Sequence[Word], patch: Patch, side: int) -> tuple[Box, ...]:
    """The changed words and those after them in the same label, as far as the images differ there.

    In running text, what follows a changed word moves by a fraction of a pixel that nobody sees.
    """
    if not changed:
        return ()
    boxes = [word.box for word in changed]
    last = max(changed, key=lambda word: (word.line, word.box[0]))
    end = last.box[0] + last.box[2]
    line = around(word.box for word in words if word.line == last.line)
    for word in words if line[2] <= LONGEST_LABEL * line[3] else ():
        if word.line == last.line and word.box[0] >= end:
            if word.box[0] - end > PART_GAP * max(8, last.box[3]) or not _same_ink(word, last, patch, side):
                break  # another piece, or a link or a name in another colour
            boxes.append(word.box)
            end = word.box[0] + word.box[2]
    outer = patch.box_before if side == 0 else patch.box_after
    right, down = outer[0] - patch.rim[0], outer[1] - patch.rim[1]
    x, y, width, height = around(boxes)
    left, top = max(0, x - right - 2), max(0, y - down - 2)
    box = bounds(patch.mask[top : y - down + height + 2, left : x - right + width + 2])
    return (moved_by(box, left + right, top + down),) if box else ((x, y, width, height),)


def _same_ink(one: Word, other: Word, patch: Patch, side: int) -> bool:
    """Whether two words of a cut are written in one colour."""
    first, second = (_ink_colour(word, patch, side) for word in (one, other))
    return bool(np.abs(first - second).sum() <= SAME_INK)


def _ink_colour(word: Word, patch: Patch, side: int) -> npt.NDArray[np.int16]:
    """The colour furthest from the ground: letters fade into it at their edges."""
    assert patch.ground is not None
    outer = patch.box_before if side == 0 else patch.box_after
    x, y, width, height = moved_by(word.box, patch.rim[0] - outer[0], patch.rim[1] - outer[1])
    pixels = (patch.before, patch.after)[side][y : y + height, x : x + width].reshape(-1, 3).astype(np.int16)
    strength = np.abs(pixels - np.array(unpack(patch.ground), np.int16)).sum(axis=1)
    colour: npt.NDArray[np.int16] = pixels[int(strength.argmax())]
    return colour


def _same_in_another_style(old: Sequence[Word], new: Sequence[Word]) -> tuple[str, str, list[tuple[Word, Word]]] | None:
    """Whether the words are the same letters, larger, smaller, bolder or lighter: the kind, how, and which."""
    if len(old) != len(new) or not old or (len(old) == 1 and max(old[0].box[2], new[0].box[2]) < 1.2 * old[0].box[3]):
        return None
    alike = 0
    ways: dict[tuple[str, str], list[tuple[Word, Word]]] = {}
    for one, other in zip(old, new, strict=True):
        if _likeness(one, other) < ALIKE:
            continue
        alike += 1
        height, width = (new / old for old, new in zip(one.coverage.shape, other.coverage.shape, strict=True))
        mass = float(other.coverage.mean() / max(1e-6, one.coverage.mean()))
        if (abs(height - 1) > 0.08 and (height - 1) * (width - 1) >= 0) or rescaled(width, height):
            ways.setdefault(("resized", "larger" if width * height > 1 else "smaller"), []).append((one, other))
        elif not 0.93 <= mass <= 1.08 and not _one_letter_differs(one, other):
            ways.setdefault(("restyled", "bolder" if mass > 1 else "lighter in weight"), []).append((one, other))
    if not ways or alike < 0.8 * len(old):
        return None
    kind, how = max(ways, key=lambda way: sum(word.box[2] for word, _ in ways[way]))
    # One style for all of them: a word whose measures round the other way changed with the rest.
    return kind, how, [pair for pairs in ways.values() for pair in pairs]


def rescaled(wider: float, taller: float) -> bool:
    """Whether letters as wide as this are of another size: another weight makes them wider by a tenth at most.

    The height says less: it is a few pixels, and letters of one size are as tall with every other rounding.
    """
    return not 1 / WIDEST_BOLD < wider < WIDEST_BOLD and (wider - 1) * (taller - 1) > -0.01


def _one_letter_differs(one: Word, other: Word) -> bool:
    """Whether most columns of two words are the same: another style shows in all of its letters."""
    if one.coverage.shape != other.coverage.shape:
        return False
    differs = np.abs(one.coverage - other.coverage).max(axis=0) > SAME_COLUMN
    return bool(differs.mean() < A_FEW_LETTERS)


def _likeness(one: Word, other: Word) -> float:
    """Correlation of two words brought to one size."""
    if min(*one.coverage.shape, *other.coverage.shape) < 2:
        return 0.0
    scaled = cv2.blur(cv2.resize(one.coverage, other.coverage.shape[::-1], interpolation=cv2.INTER_LINEAR), (3, 3))
    second = cv2.blur(other.coverage, (3, 3))
    if scaled.std() < 1e-3 or second.std() < 1e-3:
        return 0.0
    return float(np.corrcoef(scaled.ravel(), second.ravel())[0, 1])
