"""Which pixels look like smoothed edges, as pixelmatch decides it (Vysniauskas 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.comparison.raster import Raster

# In pixelmatch's order, columns first: of several darkest neighbours it keeps the first.
_NEIGHBOURS = np.array([(y, x) for x in (-1, 0, 1) for y in (-1, 0, 1) if (y, x) != (0, 0)])
_LUMA = np.array([0.29889531, 0.58662247, 0.11448223])
_PIXELS_AT_ONCE = 1 << 15

Places = npt.NDArray[np.intp]


def antialiased(before: Raster, after: Raster, places: Places, width: int) -> npt.NDArray[np.bool_]:
    """Whether each flat place of the common area, `width` wide, is a smoothed edge in either image."""
    height = min(before.height, after.height)
    first, second = before.rgba8[:height, :width], after.rgba8[:height, :width]
    words = _words(first), _words(second)
    found = np.zeros(len(places), bool)
    for start in range(0, len(places), _PIXELS_AT_ONCE):
        part = slice(start, start + _PIXELS_AT_ONCE)
        rows, columns = np.divmod(places[part], width)
        found[part] = _smooth(first, words, rows, columns) | _smooth(second, words, rows, columns)
    return found


def _smooth(
    pixels: npt.NDArray[np.uint8],
    words: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]],
    rows: Places,
    columns: Places,
) -> npt.NDArray[np.bool_]:
    height, width = pixels.shape[:2]
    near_rows, near_columns, inside = _around(rows, columns, height, width)
    centre = _over_white(pixels[rows, columns])
    delta = (centre[:, None] - _over_white(pixels[near_rows, near_columns])) @ _LUMA  # (places, 8)
    same = (words_at(pixels, near_rows, near_columns) == words_at(pixels, rows, columns)[:, None]) & inside
    delta = np.where(inside & ~same, delta, 0.0)
    equal = (delta == 0) & inside
    few_equal = equal.sum(axis=1) + ~inside.all(axis=1) <= 2
    darkest, brightest = delta.argmin(axis=1), delta.argmax(axis=1)
    each = np.arange(len(rows))
    both = (delta[each, darkest] < 0) & (delta[each, brightest] > 0)
    smooth = np.zeros(len(rows), bool)
    for extreme in (darkest, brightest):
        y, x = near_rows[each, extreme], near_columns[each, extreme]
        smooth |= _many_siblings(words[0], y, x) & _many_siblings(words[1], y, x)
    result: npt.NDArray[np.bool_] = few_equal & both & smooth
    return result


def _many_siblings(words: npt.NDArray[np.uint32], rows: Places, columns: Places) -> npt.NDArray[np.bool_]:
    """Whether a pixel has three or more neighbours of exactly its colour; the image's border counts as one."""
    near_rows, near_columns, inside = _around(rows, columns, *words.shape)
    same = (words[near_rows, near_columns] == words[rows, columns][:, None]) & inside
    result: npt.NDArray[np.bool_] = same.sum(axis=1) + ~inside.all(axis=1) > 2
    return result


def _around(rows: Places, columns: Places, height: int, width: int) -> tuple[Places, Places, npt.NDArray[np.bool_]]:
    """The eight neighbours, clamped into the image, and whether they were inside."""
    near_rows, near_columns = rows[:, None] + _NEIGHBOURS[:, 0], columns[:, None] + _NEIGHBOURS[:, 1]
    inside = (near_rows >= 0) & (near_rows < height) & (near_columns >= 0) & (near_columns < width)
    return near_rows.clip(0, height - 1), near_columns.clip(0, width - 1), inside


def words_at(pixels: npt.NDArray[np.uint8], rows: Places, columns: Places) -> npt.NDArray[np.uint32]:
    """The pixels at the places, one integer each."""
    return np.ascontiguousarray(pixels[rows, columns]).view(np.uint32)[..., 0]


def _words(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(pixels).view(np.uint32)[..., 0]


def _over_white(rgba: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    levels = rgba.astype(np.float64)
    alpha = levels[..., 3:] / 255.0
    return levels[..., :3] * alpha + 255.0 * (1.0 - alpha)
