"""Light that changed: brightness and colour of all, and slow changes across the image."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.place.colours import name_of

Pixels = npt.NDArray[np.uint8]

NOTICED = 6.0  # levels of 255
GRID = 8  # parts along each side that may have light of their own
DARKEST, LIGHTEST = 3, 251  # levels at which a channel counts as cut off, noise and blocks allowed for
FLAT = 3.0  # deviation of a channel below which nothing can be said of its gain
LARGEST_LOCAL = 25.0  # levels a slow change may have; more is a change of content


@dataclass(frozen=True, eq=False)
class Light:
    """After with before's light."""

    after: npt.NDArray[np.float32]
    kind: str | None
    sentence: str | None


def match_light(before: Pixels, after: Pixels, valid: npt.NDArray[np.bool_]) -> Light:
    """Gain and offset of each channel, then what varies slowly, fitted to the pixels that agree best."""
    first, second = before.astype(np.float32), after.astype(np.float32)
    step = max(1, int(np.sqrt(valid.sum() / 30_000)))
    # Channel by channel: sums along rows of thousands are several times as fast as down columns of three.
    one, other = (np.ascontiguousarray(p[::step, ::step][valid[::step, ::step]].T) for p in (first, second))
    gain, offset, agree = _fit(one, other)
    matched = np.clip(second * gain + offset, 0, 255)
    # A pixel at the end of the range was cut off there: what it was before may lie beyond, and then agrees.
    matched = np.where(after >= LIGHTEST, np.maximum(matched, first), matched)
    matched = np.where(after <= DARKEST, np.minimum(matched, first), matched)
    matched += _slow(first - matched, valid)
    # Judged by what agrees once matched: a red thing that came is no red light.
    shift = (other - one)[:, agree].mean(axis=1) if agree.any() else np.zeros(3, np.float32)
    return Light(matched, *_name(float(shift.mean()), shift, float((1.0 / gain).mean())))


def _fit(
    one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Gain and offset that bring after to before (3, pixels), by the four fifths that fit best, and which those are."""
    gain, offset = np.ones(3, np.float32), np.zeros(3, np.float32)
    keep = np.ones(one.shape[1], bool)
    if len(keep) < 100:
        return gain, offset, keep
    middle_one, middle_other = one.mean(axis=1), other.mean(axis=1)
    one, other = one - middle_one[:, None], other - middle_other[:, None]  # sums of squares stay small, and so exact
    squares, products = other * other, other * one
    for _ in range(5):
        share = keep.astype(np.float32) / np.count_nonzero(keep)
        mean_one, mean_other = one @ share, other @ share
        variance, covariance = squares @ share - mean_other**2, products @ share - mean_other * mean_one
        steep = np.clip(covariance / np.maximum(variance, 1e-6), 0.5, 2.0)
        gain = np.where(variance > FLAT**2, steep, 1.0).astype(np.float32)
        shift = (mean_one - gain * mean_other)[:, None]
        error = np.abs(one - other * gain[:, None] - shift).max(axis=0)
        keep = error <= max(float(np.quantile(error, 0.8)), 1.0)
    offset = (shift[:, 0] + middle_one - gain * middle_other).astype(np.float32)
    return gain, offset, keep


def _slow(difference: npt.NDArray[np.float32], valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """What a coarse grid of medians says about light that differs from place to place."""
    height, width = valid.shape
    if min(height, width) < 8 * GRID:
        return np.zeros_like(difference)
    grid = np.zeros((GRID, GRID, 3), np.float32)
    for row in range(GRID):
        for column in range(GRID):
            block = (
                slice(row * height // GRID, (row + 1) * height // GRID, 2),
                slice(column * width // GRID, (column + 1) * width // GRID, 2),
            )
            inside = difference[block][valid[block]]
            if len(inside):
                middle = np.median(inside, axis=0)
                # Light shifts most of a block alike; a thing that came or went does not.
                spread = np.median(np.abs(inside - middle), axis=0)
                grid[row, column] = np.where((np.abs(middle) < LARGEST_LOCAL) & (spread < 12), middle, 0)
    smooth = cv2.GaussianBlur(cv2.medianBlur(grid, 3), (0, 0), 0.8)
    return cv2.resize(smooth, (width, height), interpolation=cv2.INTER_CUBIC)  # type: ignore[return-value]


def _name(brighter: float, shift: npt.NDArray[np.floating], contrast: float) -> tuple[str | None, str | None]:
    leaning = shift - shift.mean()
    if np.abs(leaning).max() > NOTICED and np.abs(leaning).max() > abs(brighter):
        red, green, blue = (int(np.clip(128 + 4 * each, 0, 255)) for each in leaning)
        return "tinted", f"the light leans towards {name_of((red, green, blue))}"
    if abs(brighter) >= NOTICED:
        return "brightness", f"the picture is {'brighter' if brighter > 0 else 'darker'} overall"
    if abs(contrast - 1) > 0.25:
        return "contrast", f"the picture has {'more' if contrast > 1 else 'less'} contrast"
    return None, None
