"""Changes of the whole image: blank, mirrored, turned, scaled, cropped, shifted, and other light or colours."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import count, distance
from spotchange.comparison.place.colours import Colour, change_of, name_of
from spotchange.comparison.result import Finding, Mask
from spotchange.comparison.whole.tones import describe_tones
from spotchange.comparison.whole.zoom import describe_view
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

ALIKE = 2.5  # levels of mean difference between images that are the same but for rounding
SAME_SHARE = 0.97  # of the pixels
MUCH = 0.15  # of the pixels must differ before the whole image is suspected


def describe_frame(before: Pixels, after: Pixels, differing: Mask) -> list[Finding]:
    """The image is blank, turned, scaled or cropped: findings that explain all differences at once, or none."""
    blank = _blank(before, after)
    if blank:
        return [blank]
    if before.shape != after.shape:
        return _other_size(before, after)
    turned = _turned(before, after) if np.count_nonzero(differing) > 0.01 * differing.size else None
    return [turned] if turned else []


def describe_whole(before: Pixels, after: Pixels, differing: Mask) -> list[Finding]:
    """Images of one size in which no rows moved: shifted, in other tones, nearer; or none of these."""
    share = np.count_nonzero(differing) / differing.size
    shifted = _shifted(before, after) if share > 0.02 else None
    if shifted:
        return [shifted]
    tones = describe_tones(before, after, differing) if share > 0.01 else []
    if tones or share < MUCH:
        return tones
    view = describe_view(before, after)
    return [view] if view else []


def describe_size(before: Pixels, after: Pixels) -> list[Finding]:
    """How the sizes differ."""
    (height, width), (new_height, new_width) = before.shape[:2], after.shape[:2]
    steps = []
    if new_height != height:
        steps.append(f"{count(abs(new_height - height))} {'taller' if new_height > height else 'shorter'}")
    if new_width != width:
        steps.append(f"{count(abs(new_width - width))} {'wider' if new_width > width else 'narrower'}")
    if not steps:
        return []
    sentence = f"the picture is {' and '.join(steps)} ({width}x{height} to {new_width}x{new_height})"
    return [finding_of_all("size", sentence, before, after)]


def finding_of_all(kind: str, sentence: str, before: Pixels, after: Pixels) -> Finding:
    """A finding about the whole of both images."""
    boxes: list[Box] = [(0, 0, pixels.shape[1], pixels.shape[0]) for pixels in (before, after)]
    return Finding(
        kind=kind,
        sentence=sentence,
        boxes_before=(boxes[0],),
        boxes_after=(boxes[1],),
        pixels=before.shape[0] * before.shape[1],
    )


def everything(before: Pixels, after: Pixels) -> Finding | None:
    """The images have so little in common that places would say nothing."""
    small = [
        cv2.resize(pixels, (48, 48), interpolation=cv2.INTER_AREA).astype(np.float32) for pixels in (before, after)
    ]
    alike = float(np.corrcoef(small[0].ravel(), small[1].ravel())[0, 1]) if min(s.std() for s in small) > 1 else 0.0
    return finding_of_all("everything", "everything is different", before, after) if alike < 0.5 else None


def _blank(before: Pixels, after: Pixels) -> Finding | None:
    flat = [_is_flat(pixels) for pixels in (before, after)]
    if not any(flat):
        return None
    first, second = _corner(before), _corner(after)
    old, new = change_of(first, second) if all(flat) else (name_of(first), name_of(second))
    if all(flat):
        if before.shape != after.shape and (before[0, 0] == after[0, 0]).all():
            return None
        sentence = f"the whole picture changed from {old} to {new}"
        return finding_of_all("recoloured", sentence, before, after)
    sentence = (
        f"the picture is blank now, all {new}" if flat[1] else f"the picture was blank, all {old}, and has content now"
    )
    return finding_of_all("blank", sentence, before, after)


def _is_flat(pixels: Pixels) -> bool:
    return bool((pixels[::16, ::16] == pixels[0, 0]).all() and (pixels == pixels[0, 0]).all())


def _corner(pixels: Pixels) -> Colour:
    red, green, blue = (int(level) for level in pixels[0, 0])
    return red, green, blue


def _turned(before: Pixels, after: Pixels) -> Finding | None:
    for kind, sentence, turned in (
        ("mirrored", "the picture is mirrored left to right", before[:, ::-1]),
        ("mirrored", "the picture is mirrored top to bottom", before[::-1]),
        ("rotated", "the picture is turned by 180 degrees", before[::-1, ::-1]),
        ("rotated", "the picture is turned by 90 degrees to the right", before.transpose(1, 0, 2)[:, ::-1]),
        ("rotated", "the picture is turned by 90 degrees to the left", before.transpose(1, 0, 2)[::-1]),
    ):
        if (
            turned.shape == after.shape
            and _alike(turned, after)
            and not (turned.shape == before.shape and _alike(before, after))
        ):
            return finding_of_all(kind, sentence, before, after)
    return None


def _alike(one: Pixels, other: Pixels) -> bool:
    """Whether nearly all pixels are nearly the same; judged by every eighth first."""
    rough = np.abs(one[::8, ::8].astype(np.int16) - other[::8, ::8]).mean()
    if rough > 2 * ALIKE:
        return False
    difference = cv2.absdiff(np.ascontiguousarray(one), np.ascontiguousarray(other))
    return bool(difference.mean() <= ALIKE and (difference.max(axis=2) <= 24).mean() >= SAME_SHARE)


def _shifted(before: Pixels, after: Pixels) -> Finding | None:
    """The whole content at another place, by the same displacement everywhere."""
    scale = max(1, round(max(before.shape[:2]) / 512))
    grey = [cv2.cvtColor(pixels[::scale, ::scale], cv2.COLOR_RGB2GRAY).astype(np.float32) for pixels in (before, after)]
    if min(grey[0].shape) < 2:
        return None  # a single row or column has no window
    window = cv2.createHanningWindow(grey[0].shape[::-1], cv2.CV_32F)
    (across, down), response = cv2.phaseCorrelate(grey[0], grey[1], window)
    right, lower = round(across * scale), round(down * scale)
    if response < 0.1 or abs(right) > 0.4 * before.shape[1] or abs(lower) > 0.4 * before.shape[0]:
        return None
    places = _edge_places(before, abs(right) + scale, abs(lower) + scale)
    if places is None:
        return None
    exact = _exact_shift(before, after, places, (right, lower), scale)
    if exact is None or not _alike_when_shifted(before, after, *exact):
        return None
    finding = finding_of_all("shifted", f"the whole content moved {distance(*exact)}", before, after)
    return replace(finding, shift=exact)


def _edge_places(pixels: Pixels, across: int, down: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
    """Some pixels with an edge, so far inside that they stay in the image when they move."""
    height, width = pixels.shape[:2]
    inner = pixels[down : height - down, across : width - across]
    if min(inner.shape[:2]) < 8:
        return None
    rows, columns = np.nonzero((inner[::3, 1:] != inner[::3, :-1]).any(axis=2))
    if len(rows) < 20:
        return None
    step = max(1, len(rows) // 3000)
    return rows[::step] * 3 + down, columns[::step] + 1 + across


def _exact_shift(
    before: Pixels,
    after: Pixels,
    places: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]],
    guess: tuple[int, int],
    reach: int,
) -> tuple[int, int] | None:
    """The displacement near a guess at which nearly all edges are found again."""
    old = before[places].astype(np.int16)
    best: tuple[float, tuple[int, int]] = (SAME_SHARE, (0, 0))
    for right in range(guess[0] - reach, guess[0] + reach + 1):
        for down in range(guess[1] - reach, guess[1] + reach + 1):
            new = after[places[0] + down, places[1] + right]
            share = float((np.abs(old - new).max(axis=1) <= 12).mean())
            best = max(best, (share, (right, down)))
    return best[1] if best[1] != (0, 0) else None


def _alike_when_shifted(before: Pixels, after: Pixels, right: int, down: int) -> bool:
    height, width = before.shape[:2]
    one = before[max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
    other = after[max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)]
    return _alike(one, other)


def _other_size(before: Pixels, after: Pixels) -> list[Finding]:
    """Turned, scaled or cropped."""
    turned = _turned(before, after)
    found = turned or _scaled(before, after) or _cropped(before, after)
    return [found] if found else []


def _scaled(before: Pixels, after: Pixels) -> Finding | None:
    across, down = after.shape[1] / before.shape[1], after.shape[0] / before.shape[0]
    side = (min(before.shape[1], after.shape[1], 320), min(before.shape[0], after.shape[0], 320))
    if min(side) < 8 or max(abs(across - 1), abs(down - 1)) < 0.02:
        return None
    small = [cv2.resize(pixels, side, interpolation=cv2.INTER_AREA).astype(np.float32) for pixels in (before, after)]
    difference = np.abs(small[0] - small[1])
    spread = min(each.std() for each in small)
    if spread < 4 or difference.mean() > 0.08 * spread + 1.5:
        return None
    percent = (
        f"{across * 100:.0f} %"
        if abs(across / down - 1) < 0.02
        else f"{across * 100:.0f} % wide and {down * 100:.0f} % high"
    )
    return finding_of_all("scaled", f"the same picture at {percent} of its size", before, after)


def _cropped(before: Pixels, after: Pixels) -> Finding | None:
    """One image is cut out of the other."""
    smaller, larger = (after, before) if after.shape[0] <= before.shape[0] else (before, after)
    if smaller.shape[1] >= larger.shape[1] or min(smaller.shape[:2]) < 16:
        return None  # rows that one has more are found by aligning rows
    factor = max(1, round(min(smaller.shape[:2]) / 64))
    grey = [cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) for pixels in (larger, smaller)]
    tiny = [
        cv2.resize(g, (max(1, g.shape[1] // factor), max(1, g.shape[0] // factor)), interpolation=cv2.INTER_AREA)
        for g in grey
    ]
    if tiny[1].std() < 2 or tiny[0].shape[0] < tiny[1].shape[0] or tiny[0].shape[1] < tiny[1].shape[1]:
        return None
    match = cv2.matchTemplate(tiny[0], tiny[1], cv2.TM_CCOEFF_NORMED)
    _, best, _, (left, top) = cv2.minMaxLoc(match)
    if best < 0.9:
        return None
    place = _locate(larger, smaller, left * factor, top * factor, 2 * factor)
    if place is None:
        return None
    x, y = place
    if (x, y) == (0, 0) and smaller.shape[0] == larger.shape[0]:
        return None  # a page that became wider or narrower at its side, which the sizes say
    box = (x, y, smaller.shape[1], smaller.shape[0])
    if smaller is after:
        sentence = f"the picture is cropped to {box[2]}x{box[3]} pixels from {x}, {y}"
        return Finding(
            kind="cropped",
            sentence=sentence,
            boxes_before=(box,),
            boxes_after=((0, 0, box[2], box[3]),),
            pixels=box[2] * box[3],
        )
    sentence = f"the picture shows more: before is its part of {box[2]}x{box[3]} pixels from {x}, {y}"
    return Finding(
        kind="cropped",
        sentence=sentence,
        boxes_before=((0, 0, box[2], box[3]),),
        boxes_after=(box,),
        pixels=box[2] * box[3],
    )


def _locate(larger: Pixels, smaller: Pixels, left: int, top: int, reach: int) -> tuple[int, int] | None:
    """Where exactly the smaller image lies in the larger one, near a guess."""
    height, width = smaller.shape[:2]
    y, x = max(0, top - reach), max(0, left - reach)
    window = larger[y : top + reach + height, x : left + reach + width]
    step = max(1, min(height, width) // 200)
    sample = np.ascontiguousarray(smaller[: height // 2 : 1, : width // 2])[:200, :200]
    if window.shape[0] < height or window.shape[1] < width:
        return None
    match = cv2.matchTemplate(window[: 200 + 2 * reach + step, : 200 + 2 * reach + step], sample, cv2.TM_SQDIFF)
    _, _, (across, down), _ = cv2.minMaxLoc(match)
    part = larger[y + down : y + down + height, x + across : x + across + width]
    return (x + across, y + down) if part.shape == smaller.shape and _alike(part, smaller) else None
