"""What happened at one changed place: tried from the most certain explanation to the least."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from spotchange.comparison.layout.positions import distance, place, with_article
from spotchange.comparison.layout.regions import around, bounds, moved_by
from spotchange.comparison.place.colours import change_of, name_of, unpack
from spotchange.comparison.place.outlines import describe_border, describe_covered
from spotchange.comparison.place.parts import describe_parts
from spotchange.comparison.place.patches import Patch, main_colour
from spotchange.comparison.place.textlike import looks_like_text
from spotchange.comparison.result import Finding
from spotchange.results import Box

NEARLY_ALL = 0.93  # of the pixels an explanation must cover to be believed at once
LETTER = 12  # pixels of ink together
SAME_OUTLINE, SLIGHT = 0.8, 30  # share of the ink; levels
MOSTLY = 0.72
LIKE = 0.55  # correlation of two shapes of different size that are the same thing


def classify(patch: Patch, size: tuple[int, int], *, lines: Patch | None = None) -> list[Finding]:
    """The findings for one place of a picture of that size (width, height).

    `lines` is the cut widened to whole lines, where the place may be a part of a text.
    """
    finding = certain(patch, size)
    if finding is not None:
        return [finding]
    moved, share = _moved(patch, size)
    # A letter of a word that moved on is little ink and another text.
    text = patch.one_ink and all(looks_like_text(ink & patch.mask) for ink in patch.inks)
    letter = text and moved is not None and _letter_left(patch, moved.shift)
    if moved is not None and share >= NEARLY_ALL and not letter:
        return [moved]
    parts = describe_parts(lines or patch, size)
    # Most may have moved because of something that came or went between: the parts tell.
    came_or_went = ("inserted", "removed", "appeared", "disappeared", "swapped")
    # Along the line, the end of a text moves because of what changed before it.
    along = letter and moved is not None and moved.shift is not None and moved.shift[1] == 0
    if parts and (moved is None or along or parts[0].kind in came_or_went):
        return parts
    return [moved] if moved else []


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


def thing(patch: Patch, side: int) -> str:
    """What a cut shows, as far as pixels tell: text, a red shape, a picture."""
    ink = patch.inks[side] & patch.mask
    if not ink.any():
        return "something"
    if looks_like_text(ink):
        return "text"
    box = bounds(ink)
    assert box is not None
    inner = patch.words[side][box[1] : box[1] + box[3], box[0] : box[0] + box[2]]
    colours = len(np.unique(inner))
    if colours > 0.2 * inner.size and inner.size > 400:
        return "a picture"
    name = name_of(main_colour(patch.words[side], ink, patch.ground))
    if min(box[2], box[3]) <= 4:
        return f"{with_article(name)} line"
    solid = np.count_nonzero(ink) / (box[2] * box[3])
    return f"{with_article(name)} {'box' if solid > 0.85 else 'shape'}"


def _appeared_or_disappeared(patch: Patch, size: tuple[int, int]) -> Finding | None:
    if patch.ground is None:
        return None
    old, new = (int(np.count_nonzero(ink & patch.mask)) for ink in patch.inks)
    if new <= 0.01 * patch.pixels:
        what = thing(patch, 0)
        return Finding(
            kind="disappeared",
            sentence=f"{what} {place(patch.box_before, size)} disappeared",
            boxes_before=(patch.box_before,),
            pixels=patch.pixels,
        )
    if old <= 0.01 * patch.pixels:
        what = thing(patch, 1)
        return Finding(
            kind="appeared",
            sentence=f"{what} appeared {place(patch.box_after, size)}",
            boxes_after=(patch.box_after,),
            pixels=patch.pixels,
        )
    return None


def _recoloured(patch: Patch, size: tuple[int, int]) -> Finding | None:
    certain, pairs = patch.colour_map()
    if certain < NEARLY_ALL:
        error, difference = patch.colour_error()
        if patch.pixels < 24 or error > 0.12 * difference + 1.5:
            return None
        if difference > SLIGHT and not _same_outline(patch):
            return None  # another picture can follow a map of colours by chance
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


def _letter_left(patch: Patch, shift: tuple[int, int] | None) -> bool:
    """Whether a displacement leaves as much ink in one place as a letter has."""
    if shift is None:
        return False
    for ink, found in zip(patch.inks, patch.shifted_alike(*shift), strict=True):
        left = (ink & patch.mask & ~found).view(np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(left, connectivity=8)
        if len(stats) > 1 and stats[1:, cv2.CC_STAT_AREA].max() >= LETTER:
            return True
    return False


def _same_outline(patch: Patch) -> bool:
    """Whether the ink of both sides covers the same pixels, where there is a ground to tell it from."""
    one, other = patch.inks
    return bool(np.count_nonzero(one & other) >= SAME_OUTLINE * np.count_nonzero(one | other))


def _moved(patch: Patch, size: tuple[int, int]) -> tuple[Finding | None, float]:
    """The same content displaced, or two parts exchanged, and the share of the pixels this explains."""
    old, new = (max(1, int(np.count_nonzero(ink & patch.mask))) for ink in patch.inks)
    best: tuple[float, tuple[int, int]] | None = None
    explained = []
    for shift in patch.shift_candidates():
        kept, came = patch.shifted_alike(*shift)
        explained.append((kept, came, shift))
        share = min(np.count_nonzero(kept) / old, np.count_nonzero(came) / new)
        if best is None or share > best[0]:
            best = (share, shift)
    if best is None:
        return None, 0.0
    if best[0] >= MOSTLY:
        right, down = best[1]
        kept, came = patch.shifted_alike(right, down)
        box_old, box_new = bounds(kept), bounds(came)
        if box_old is None or box_new is None:
            return None, 0.0
        # What moved is as large at both places: the parts that happen to agree are widened to that.
        box_old, box_new = (
            around([box_old, moved_by(box_new, -right, -down)]),
            around([box_new, moved_by(box_old, right, down)]),
        )
        finding = Finding(
            kind="moved",
            sentence=f"{thing(patch, 0)} {place(patch.box_before, size)} moved {distance(right, down)}",
            boxes_before=(_outside(box_old, patch, 0),),
            boxes_after=(_outside(box_new, patch, 1),),
            pixels=patch.pixels,
            shift=(right, down),
        )
        return finding, best[0]
    swapped = _swapped(patch, size, explained, old, new)
    return swapped, 1.0 if swapped else 0.0


def _swapped(patch: Patch, size: tuple[int, int], explained: list[Any], old: int, new: int) -> Finding | None:
    """Two displacements in opposite directions that together explain what one does not."""
    for number, (kept, came, shift) in enumerate(explained):
        for other_kept, other_came, other in explained[number + 1 :]:
            if shift[0] * other[0] + shift[1] * other[1] >= 0:
                continue
            share = min(np.count_nonzero(kept | other_kept) / old, np.count_nonzero(came | other_came) / new)
            if share >= 0.85:
                return Finding(
                    kind="swapped",
                    sentence=f"two parts {place(patch.box_before, size)} exchanged places",
                    boxes_before=(patch.box_before,),
                    boxes_after=(patch.box_after,),
                    pixels=patch.pixels,
                )
    return None


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
        boxes_before=(_outside(whole[0], patch, 0),),
        boxes_after=(_outside(whole[1], patch, 1),),
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


def _outside(box: Box, patch: Patch, side: int) -> Box:
    """A rectangle of the cut as one of the picture, kept within the difference."""
    outer = patch.box_before if side == 0 else patch.box_after
    x, y = box[0] - patch.rim[0], box[1] - patch.rim[1]
    left, top = max(0, x), max(0, y)
    right, bottom = min(outer[2], x + box[2]), min(outer[3], y + box[3])
    return outer[0] + left, outer[1] + top, max(1, right - left), max(1, bottom - top)


def _shape(patch: Patch, side: int, box: Box) -> np.ndarray:
    cutout = (patch.before, patch.after)[side][box[1] : box[1] + box[3], box[0] : box[0] + box[2]]
    ground = np.array(unpack(patch.ground or 0), np.float32)
    result: np.ndarray = np.abs(cutout.astype(np.float32) - ground).sum(axis=2)
    return result


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if one.std() < 1 and other.std() < 1:
        return 1.0
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1]) if one.std() > 1 and other.std() > 1 else 0.0
