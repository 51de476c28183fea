"""Rectangles a caller does not want judged: clocks, advertisements, a corner that always changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spotchange.answering.pair import ImagePair, LazyImage
from spotchange.results import Box


def without_ignored(pair: ImagePair, ignore: Sequence[Box]) -> ImagePair:
    """The pair, with the ignored rectangles of after showing what before shows there."""
    if not ignore:
        return pair
    before, after = pair.before.pil, pair.after.pil
    patched = after.copy()
    across, down = after.width / before.width, after.height / before.height
    for x, y, width, height in ignore:
        crop = before.crop((x, y, min(x + width, before.width), min(y + height, before.height)))
        if crop.width and crop.height:
            size = (max(1, round(crop.width * across)), max(1, round(crop.height * down)))
            patched.paste(crop.resize(size), (round(x * across), round(y * down)))
    return ImagePair(pair.before, LazyImage(patched))


def without_heat(
    heat: npt.NDArray[np.float32], size: tuple[int, int], ignore: Sequence[Box]
) -> npt.NDArray[np.float32]:
    """No region is reported where more than half of a patch is ignored."""
    if not ignore:
        return heat
    heat = heat.copy()
    rows, columns = heat.shape[1:]
    for x, y, width, height in ignore:
        top, bottom = round(y * rows / size[1]), round((y + height) * rows / size[1])
        left, right = round(x * columns / size[0]), round((x + width) * columns / size[0])
        heat[:, top:bottom, left:right] = 0
    return heat
