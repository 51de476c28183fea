"""Which pixels differ and by how much: every pixel, at native size and full depth.

The distance is that of pixelmatch and odiff: weighted squares in YIQ (Kotsarenko and Ramos 2010), here as the root
of its share of the largest possible, so that it is on the scale of their `threshold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.comparison.antialiasing import antialiased
from spotchange.comparison.options import Tolerance
from spotchange.comparison.raster import Raster
from spotchange.comparison.result import Mask
from spotchange.results import Box

LARGEST_YIQ = 35215.0  # of the weighted squares, for 8 bits
_TO_YIQ = np.array(
    [
        [0.29889531, 0.58662247, 0.11448223],
        [0.59597799, -0.27417610, -0.32180189],
        [0.21147017, -0.52261711, 0.31114694],
    ]
)
# The root of the weighted squares, as a share of the largest, is the length of a turned and stretched difference.
_ROOTS = np.sqrt(np.array([0.5053, 0.299, 0.1957]) / LARGEST_YIQ)
_TO_DISTANCE = (_TO_YIQ.T * _ROOTS).astype(np.float32)
_ROWS_AT_ONCE = 64
_PIXELS_AT_ONCE = 1 << 15  # as many as stay in the processor's own memory


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The numbers of a comparison, before anything is described."""

    identical: bool
    differing: Mask
    """Pixels that differ at all and are not ignored; the frame covers both images."""
    counted: Mask
    """Those of them that count under the tolerance."""
    diff_pixels: int
    largest_difference: float


def judge(before: Raster, after: Raster, tolerance: Tolerance, ignore: Sequence[Box]) -> Verdict:
    """Compare every pixel, both images laid from the top left; what only one of them covers differs fully."""
    height, width = min(before.height, after.height), min(before.width, after.width)
    if before.size == after.size:
        differing = np.zeros((height, width), bool)
        if not _mark(before, after, differing):
            return Verdict(
                identical=True, differing=differing, counted=differing, diff_pixels=0, largest_difference=0.0
            )
    else:
        differing = np.ones((max(before.height, after.height), max(before.width, after.width)), bool)
        # Rows that only one image has differ, the corner that neither has does not.
        differing[before.height :, after.width :] = differing[after.height :, before.width :] = False
        differing[:height, :width] = False
        _mark(before, after, differing[:height, :width])
    for x, y, box_width, box_height in ignore:
        differing[max(y, 0) : max(y + box_height, 0), max(x, 0) : max(x + box_width, 0)] = False
    places = np.flatnonzero(differing[:height, :width])
    distances = distances_at(before, after, places, width)
    largest = float(distances.max(initial=0.0)) if np.count_nonzero(differing) == len(places) else 1.0
    counted = differing
    if tolerance.pixel_threshold > 0 or tolerance.ignore_antialiasing:
        small = distances <= tolerance.pixel_threshold
        if tolerance.ignore_antialiasing:
            large = np.flatnonzero(~small)
            small[large[antialiased(before, after, places[large], width)]] = True
        rows, columns = np.divmod(places[small], width)
        counted = differing.copy()
        counted[rows, columns] = False
    return Verdict(
        identical=False,
        differing=differing,
        counted=counted,
        diff_pixels=int(np.count_nonzero(counted)),
        largest_difference=min(1.0, largest),
    )


def distances_at(before: Raster, after: Raster, places: npt.NDArray[np.intp], width: int) -> npt.NDArray[np.float32]:
    """YIQ distance from 0 to 1 at flat places of the common area, which is `width` wide."""
    if not len(places):
        return np.empty(0, np.float32)
    plain = not (before.transparent or after.transparent or before.deep or after.deep)
    found = np.empty(len(places), np.float32)
    for start in range(0, len(places), _PIXELS_AT_ONCE):
        part = slice(start, start + _PIXELS_AT_ONCE)
        if plain:
            one, other = (_levels(image, places[part], width) for image in (before, after))
            found[part] = _lengths(one.astype(np.float32) - other)
            continue
        rows, columns = np.divmod(places[part], width)
        first, second = before.levels_at(rows, columns), after.levels_at(rows, columns)
        # Over white alone, clear and white would be the same; over two grounds no transparency hides.
        found[part] = np.maximum(*(_lengths(_over(first, ground) - _over(second, ground)) for ground in (255.0, 0.0)))
    return found


def _mark(before: Raster, after: Raster, differing: Mask) -> bool:
    """Set, within the common area, every pixel that differs; whether any does."""
    height, width = differing.shape
    if before.stored.shape[2:] == after.stored.shape[2:] and not before.transparent and not after.transparent:
        first, second = before.stored, after.stored
        if first.dtype != second.dtype:
            first, second = before.words(deep=True)[..., None], after.words(deep=True)[..., None]
    else:
        deep = before.deep or after.deep
        first, second = before.words(deep=deep)[..., None], after.words(deep=deep)[..., None]
    found = False
    # Band by band, so that nothing as large as the image is made: fresh memory costs more than comparing.
    for top in range(0, height, _ROWS_AT_ONCE):
        rows = slice(top, min(top + _ROWS_AT_ONCE, height))
        unlike = first[rows, :width] != second[rows, :width]
        if unlike.any():
            found = True
            for channel in range(unlike.shape[2]):
                differing[rows] |= unlike[..., channel]
    return found


def _levels(image: Raster, places: npt.NDArray[np.intp], width: int) -> npt.NDArray[np.uint8]:
    """(places, 3 or 4) of an 8-bit image without transparency."""
    channels = image.stored.shape[2]
    if image.width != width:
        rows, columns = np.divmod(places, width)
        places = rows * image.width + columns
    found: npt.NDArray[np.uint8] = image.stored.reshape(-1, channels).take(places, axis=0)
    return found[:, :3]


def _lengths(difference: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The distance of differences in RGB, (places, 3)."""
    turned = difference.astype(np.float32, copy=False) @ _TO_DISTANCE
    result: npt.NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", turned, turned))
    return result


def _over(levels: npt.NDArray[np.float64], ground: float) -> npt.NDArray[np.float64]:
    alpha = levels[:, 3:] / 255.0
    return levels[:, :3] * alpha + ground * (1.0 - alpha)
