"""The same image in other light or other colours: grey, inverted, brighter, more contrast, faded, tinted."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.regions import groups
from spotchange.comparison.place.classify import classify, likely, replaced
from spotchange.comparison.place.colours import name_of
from spotchange.comparison.place.patches import Patch, patch_at
from spotchange.comparison.result import Finding, Mask

Pixels = npt.NDArray[np.uint8]

SAMPLED = 40_000
SPREAD = 5  # of nine parts of the image must differ for a change of tone to be one of the whole image
LEFT_OVER = 28  # levels a place may lie beside the map of tones before it is a change of its own
MOST_PLACES = 12


def describe_tones(before: Pixels, after: Pixels, differing: Mask) -> list[Finding]:
    """The change of tones and what it does not explain, or nothing if no map of colours explains most."""
    parts = [part for row in np.array_split(differing, 3) for part in np.array_split(row, 3, axis=1)]
    if sum(part.any() for part in parts) < SPREAD:
        return []
    noise = _noise(before, after, differing)
    if noise:
        return [noise]
    old, new = _sample(before, after, differing)
    coefficients, error = _fit(old, new)
    changed = (old != new).any(axis=1)
    difference = float(np.abs(old - new)[changed].mean())
    if error > 0.1 * difference + 1.0 or _breaks_what_stayed(old[~changed], coefficients, difference):
        return []
    height, width = before.shape[:2]
    kind, sentence = _name(coefficients, before, after)
    finding = Finding(
        kind=kind,
        sentence=sentence,
        boxes_before=((0, 0, width, height),),
        boxes_after=((0, 0, width, height),),
        pixels=int(np.count_nonzero(differing)),
    )
    return [finding, *_left_over(before, after, coefficients)]


def _noise(before: Pixels, after: Pixels, differing: Mask) -> Finding | None:
    """Differences that no one sees and that cancel out from pixel to pixel: compression, dithering, a sensor."""
    one, other = (cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32) for pixels in (before, after))
    levels = one - other  # of grey: compression blurs colours over several pixels
    if np.abs(cv2.blur(levels, (15, 15))).max() > 8 or (np.abs(levels) > 40).mean() > 0.002:
        return None
    if np.abs(cv2.blur(before, (31, 31)).astype(np.int16) - cv2.blur(after, (31, 31))).max() > 14:
        return None
    height, width = before.shape[:2]
    return Finding(
        kind="noise",
        sentence=f"slight noise all over, as from other compression, at most {int(np.abs(levels).max())} levels of 255",
        boxes_before=((0, 0, width, height),),
        boxes_after=((0, 0, width, height),),
        pixels=int(np.count_nonzero(differing)),
    )


def _sample(before: Pixels, after: Pixels, differing: Mask) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    places = np.flatnonzero(differing)
    still = np.flatnonzero(~differing)
    # What did not change must follow the map too, or a few recoloured words would pass for a change of all.
    places = np.concatenate([places[:: max(1, len(places) // SAMPLED)], still[:: max(1, len(still) // (SAMPLED // 2))]])
    return before.reshape(-1, 3)[places].astype(np.float64), after.reshape(-1, 3)[places].astype(np.float64)


def _breaks_what_stayed(
    still: npt.NDArray[np.float64], coefficients: npt.NDArray[np.float64], difference: float
) -> bool:
    """Whether the map would change what did not: then it describes some things, not the light on all of them."""
    if not len(still):
        return False
    ground = np.median(still, axis=0)
    others = still[(np.abs(still - ground) > 16).any(axis=1)]
    for levels in (still, others):
        if len(levels) >= 20:
            mapped = (np.column_stack([levels, np.ones(len(levels))]) @ coefficients).clip(0, 255)
            if np.abs(mapped - levels).mean() > max(2.0, 0.15 * difference):
                return True
    return False


def _fit(old: npt.NDArray[np.float64], new: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], float]:
    """The affine map of colours (4, 3) that fits best, and its mean error over the best nine tenths of what changed."""
    inputs = np.column_stack([old, np.ones(len(old))])
    # A level at the end of the range may have been cut off there: it is explained, but explains nothing.
    keep = ((new > 1) & (new < 254)).all(axis=1)
    if keep.sum() < 200:
        keep = np.ones(len(old), bool)
    inner = keep
    coefficients: npt.NDArray[np.float64] = np.zeros((4, 3))
    for _ in range(3):
        coefficients = np.asarray(np.linalg.lstsq(inputs[keep], new[keep], rcond=None)[0], np.float64)
        errors = np.abs((inputs @ coefficients).clip(0, 255) - new).mean(axis=1)
        good = errors <= max(1.0, np.quantile(errors, 0.95))
        keep = inner & good
    changed = (old != new).any(axis=1)
    return coefficients, float(np.sort(errors[changed])[: max(1, int(0.9 * changed.sum()))].mean())


def _name(coefficients: npt.NDArray[np.float64], before: Pixels, after: Pixels) -> tuple[str, str]:
    colourful = [float(np.ptp(pixels[::4, ::4].astype(np.int16), axis=2).mean()) for pixels in (before, after)]
    if colourful[1] < 0.6 and colourful[0] > 2 * colourful[1] + 1:
        return "grey", "the picture turned grey"
    if colourful[0] < 0.6 and colourful[1] > 2 * colourful[0] + 1:
        return "coloured", "the grey picture has colours now"
    grey_in = np.array([64.0, 192.0])
    outs = np.stack([np.array([level] * 3 + [1.0]) @ coefficients for level in grey_in])  # (2, 3)
    slope = float((outs[1] - outs[0]).mean() / 128.0)
    shift = float(after[::4, ::4].mean() - before[::4, ::4].mean())
    leaning = outs.mean(axis=0) - outs.mean()
    if slope < -0.4:
        return "inverted", "light and dark are inverted"
    if np.abs(leaning).max() > max(8.0, 0.4 * abs(shift)):
        tint = name_of(tuple(int(np.clip(128 + 3 * each, 0, 255)) for each in leaning))  # type: ignore[arg-type]
        return "tinted", f"all colours lean towards {tint}"
    # Where a line of slope below one meets the diagonal is the level all others are drawn to.
    fixed = (float(outs[0].mean()) - 64 * slope) / (1 - slope) if slope < 0.97 else -1.0
    if 0.03 < slope < 0.97 and 200 < fixed < 300:
        return "faded", f"everything is faded towards white, to {slope * 100:.0f} % of its contrast"
    if abs(shift) >= 4 and abs(slope - 1) < 0.6:
        return (
            "brightness",
            f"everything is {'brighter' if shift > 0 else 'darker'}, by {abs(shift):.0f} levels of 255 on average",
        )
    if abs(slope - 1) > 0.03:
        return (
            "contrast",
            f"everything has {'more' if slope > 1 else 'less'} contrast, {slope * 100:.0f} % of what it was",
        )
    return "brightness", f"everything is slightly {'brighter' if shift > 0 else 'darker'}"


def _at(patch: Patch, size: tuple[int, int]) -> list[Finding]:
    return classify(patch, size) or [likely(patch, size) or replaced(patch, size)]


def _left_over(before: Pixels, after: Pixels, coefficients: npt.NDArray[np.float64]) -> list[Finding]:
    """Places that the change of tones does not explain."""
    matrix = coefficients.T.astype(np.float32)  # (3, 4)
    expected = np.clip(cv2.transform(before.astype(np.float32), matrix), 0, 255).round().astype(np.uint8)
    beside = cv2.absdiff(expected, after).max(axis=2) > LEFT_OVER
    beside = cv2.morphologyEx(beside.view(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)).view(bool)
    if beside.mean() > 0.2:
        return []
    corrected = np.where(cv2.dilate(beside.view(np.uint8), np.ones((5, 5), np.uint8))[..., None] > 0, expected, after)
    size = (before.shape[1], before.shape[0])
    boxes = sorted(groups(beside), key=lambda box: -box[2] * box[3])[:MOST_PLACES]
    return [finding for box in boxes for finding in _at(patch_at(corrected, after, box), size)]
