"""What happened at one changed place: tried from the most certain explanation to the least."""

from __future__ import annotations

import cv2
import numpy as np

from spotchange.comparison.layout.positions import place
from spotchange.comparison.layout.regions import bounds
from spotchange.comparison.place.colours import change_of, most_common, unpack
from spotchange.comparison.place.moves import letter_left, moved_content
from spotchange.comparison.place.outlines import describe_border, describe_covered
from spotchange.comparison.place.parts import describe_parts
from spotchange.comparison.place.patches import Patch, outside, thing
from spotchange.comparison.place.textlike import looks_like_text
from spotchange.comparison.result import Finding
from spotchange.results import Box

NEARLY_ALL = 0.93  # of the pixels an explanation must cover to be believed at once
SAME_OUTLINE, SLIGHT = 0.8, 30  # share of the ink; levels
LEFT_OVER = 0.045  # of the pixels that may not be ground, at smoothed edges of what lies above
ONE_GROUND, VARIED = 0.99, 0.6  # share of one colour in what is flat, and at most in what is drawn on it
LIKE = 0.55  # correlation of two shapes of different size that are the same thing


def classify(patch: Patch, size: tuple[int, int], *, lines: Patch | None = None) -> list[Finding]:
    """The findings for one place of an image of that size (width, height).

    `lines` is the cut widened to whole lines, where the place may be a part of a text.
    """
    return account(patch, size, lines=lines)[0]


def account(patch: Patch, size: tuple[int, int], *, lines: Patch | None = None) -> tuple[list[Finding], Box]:
    """As `classify`, and the rectangle of before in which the findings explain all that differs."""
    finding = certain(patch, size)
    if finding is not None:
        return [finding], patch.box_before
    moved, share = moved_content(patch, size)
    # A letter of a word that moved on is little ink and another text.
    text = patch.one_ink and all(looks_like_text(ink & patch.mask) for ink in patch.inks)
    letter = text and moved is not None and letter_left(patch, moved.shift)
    if moved is not None and share >= NEARLY_ALL and not letter:
        return [moved], patch.box_before
    parts = describe_parts(lines or patch, size)
    # Most may have moved because of something that came or went between: the parts tell.
    came_or_went = ("inserted", "removed", "appeared", "disappeared", "swapped")
    # Along the line, the end of a text moves because of what changed before it.
    along = letter and moved is not None and moved.shift is not None and moved.shift[1] == 0
    if parts and (moved is None or along or parts[0].kind in came_or_went):
        return parts, (lines or patch).box_before
    return [moved] if moved else [], patch.box_before


def certain(patch: Patch, size: tuple[int, int]) -> Finding | None:
    """An explanation that accounts for nearly all pixels where they are."""
    return (
        _appeared_or_disappeared(patch, size)
        or _recoloured(patch, size)
        or describe_border(patch, size)
        or describe_covered(patch, size)
    )


def likely(patch: Patch, size: tuple[int, int]) -> Finding | None:
    """An explanation by the look of both sides."""
    return _resized(patch, size) or _text(patch, size)


def replaced(patch: Patch, size: tuple[int, int]) -> Finding:
    """What is said where nothing explains the difference."""
    return Finding(
        kind="replaced",
        sentence=f"the content {place(patch.box_before, size)} was replaced",
        boxes_before=(patch.box_before,),
        boxes_after=(patch.box_after,),
        pixels=patch.pixels,
    )


def _appeared_or_disappeared(patch: Patch, size: tuple[int, int]) -> Finding | None:
    if patch.ground is None:
        old, new = _inks_on_own_ground(patch)
    else:
        old, new = (int(np.count_nonzero(ink & patch.mask)) for ink in patch.inks)
    if new <= LEFT_OVER * patch.pixels:
        what = thing(patch, 0)
        return Finding(
            kind="disappeared",
            sentence=f"{what} {place(patch.box_before, size)} disappeared",
            boxes_before=(patch.box_before,),
            pixels=patch.pixels,
        )
    if old <= LEFT_OVER * patch.pixels:
        what = thing(patch, 1)
        return Finding(
            kind="appeared",
            sentence=f"{what} appeared {place(patch.box_after, size)}",
            boxes_after=(patch.box_after,),
            pixels=patch.pixels,
        )
    return None


def _inks_on_own_ground(patch: Patch) -> tuple[int, int]:
    """Pixels that are not ground on either side, where other things lie at the rim.

    What differs and is flat on one side only shows its ground there: letters came or went beside a box.
    """
    sides = [words[patch.mask] for words in patch.words]
    (old_colour, old_share), (new_colour, new_share) = (most_common(side) for side in sides)
    if max(old_share, new_share) < ONE_GROUND or min(old_share, new_share) > VARIED:
        return patch.pixels, patch.pixels
    ground = old_colour if old_share > new_share else new_colour
    if not any((words[~patch.mask] == ground).any() for words in patch.words):
        return patch.pixels, patch.pixels  # a colour found nowhere round it is no ground
    return int(np.count_nonzero(sides[0] != ground)), int(np.count_nonzero(sides[1] != ground))


def _recoloured(patch: Patch, size: tuple[int, int]) -> Finding | None:
    certain, pairs = patch.colour_map()
    if certain < NEARLY_ALL:
        error, difference = patch.colour_error()
        if patch.pixels < 24 or error > 0.12 * difference + 1.5:
            return None
        if difference > SLIGHT and not _same_outline(patch):
            return None  # another image can follow a map of colours by chance
    counted = sum(pixels for _, _, pixels in pairs)
    shares = {(old, new): pixels / counted for old, new, pixels in pairs}
    if any(shares.get((new, old), 0) > 0.1 and share > 0.1 for (old, new), share in shares.items()):
        return None  # one colour for another and back: something moved over its ground
    old, new, most = pairs[0]
    if most < 0.5 * counted and patch.ground is not None:
        # Of smoothed letters, the pair furthest from the ground is the colour of the ink.
        ground = np.array(unpack(patch.ground))
        strengths = [max(np.abs(np.array(unpack(each)) - ground).sum() for each in pair[:2]) for pair in pairs]
        old, new, _ = pairs[int(np.argmax(strengths))]
    names = change_of(unpack(old), unpack(new))
    what = "text" if looks_like_text(patch.inks[0] & patch.mask) else "an area"
    return Finding(
        kind="recoloured",
        sentence=f"{what} {place(patch.box_before, size)} changed from {names[0]} to {names[1]}",
        boxes_before=(patch.box_before,),
        boxes_after=(patch.box_after,),
        pixels=patch.pixels,
        colours=names,
    )


def _same_outline(patch: Patch) -> bool:
    """Whether the ink of both sides covers the same pixels, where there is a ground to tell it from."""
    one, other = patch.inks
    return bool(np.count_nonzero(one & other) >= SAME_OUTLINE * np.count_nonzero(one | other))


def _resized(patch: Patch, size: tuple[int, int]) -> Finding | None:
    boxes = [patch.ink_box(side) for side in (0, 1)]
    if patch.ground is None or boxes[0] is None or boxes[1] is None:
        return None
    whole = [bounds(patch.inks[0]) or boxes[0], bounds(patch.inks[1]) or boxes[1]]
    (_, _, old_width, old_height), (_, _, new_width, new_height) = whole[0], whole[1]
    wider, taller = new_width / old_width, new_height / old_height
    if max(abs(wider - 1), abs(taller - 1)) < 0.03 or min(old_width, old_height, new_width, new_height) < 3:
        return None
    if (wider - 1) * (taller - 1) < -0.001:
        return None
    first, second = (_shape(patch, side, box) for side, box in enumerate(whole))
    scaled = cv2.resize(first, (second.shape[1], second.shape[0]), interpolation=cv2.INTER_AREA)
    both_text = looks_like_text(patch.inks[0] & patch.mask) and looks_like_text(patch.inks[1] & patch.mask)
    if both_text and (abs(wider / taller - 1) > 0.25 or abs(taller - 1) < 0.03):
        return None
    if _correlation(scaled, second) < LIKE:
        return None
    larger = new_width * new_height > old_width * old_height
    return Finding(
        kind="resized",
        sentence=f"{thing(patch, 0)} {place(patch.box_before, size)} became {'larger' if larger else 'smaller'}: "
        f"{old_width}x{old_height} to {new_width}x{new_height} pixels",
        boxes_before=(outside(whole[0], patch, 0),),
        boxes_after=(outside(whole[1], patch, 1),),
        pixels=patch.pixels,
    )


def _text(patch: Patch, size: tuple[int, int]) -> Finding | None:
    if not patch.one_ink or not all(looks_like_text(ink & patch.mask) or looks_like_text(ink) for ink in patch.inks):
        return None
    return Finding(
        kind="text",
        sentence=f"the text {place(patch.box_before, size)} changed",
        boxes_before=(patch.box_before,),
        boxes_after=(patch.box_after,),
        pixels=patch.pixels,
    )


def _shape(patch: Patch, side: int, box: Box) -> np.ndarray:
    cutout = (patch.before, patch.after)[side][box[1] : box[1] + box[3], box[0] : box[0] + box[2]]
    ground = np.array(unpack(patch.ground or 0), np.float32)
    result: np.ndarray = np.abs(cutout.astype(np.float32) - ground).sum(axis=2)
    return result


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if one.std() < 1 and other.std() < 1:
        return 1.0
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1]) if one.std() > 1 and other.std() > 1 else 0.0
