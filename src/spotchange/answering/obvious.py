"""A difference that no camera, lamp or encoder explains: for photos that a model calls unchanged.

Both pictures are made small and equally bright; every place is compared with the best match near it. What is left,
averaged over a patch, is large only where something else is seen.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.pair import ImagePair

_SIDE = 72
_REACH = 3  # pixels of the small picture that a camera may have moved
_PATCH = 7  # pixels of the small picture that are averaged
OBVIOUS = 0.13  # of the range from black to white; no control pair came near (docs/experiments)

Floats = npt.NDArray[np.float32]


def difference_map(pair: ImagePair) -> Floats:
    """(side, side): how much of each place has no match near it in the other picture, from 0 to 1."""
    before, after = (_small(image.pil) for image in (pair.before, pair.after))
    after = _equally_bright(after, before)
    one_way, other_way = _unmatched(before, after), _unmatched(after, before)
    return _averaged(np.maximum(one_way, other_way))


def _small(picture: Image.Image) -> Floats:
    small = np.asarray(picture.resize((_SIDE, _SIDE), Image.Resampling.BOX, reducing_gap=2.0), np.float32)
    return small / np.float32(255)


def _equally_bright(picture: Floats, like: Floats) -> Floats:
    """Gain and offset of each channel, by the middle and the spread, which a change of one thing hardly moves."""
    for channel in range(3):
        low, middle, high = np.quantile(picture[..., channel], (0.1, 0.5, 0.9))
        to_low, to_middle, to_high = np.quantile(like[..., channel], (0.1, 0.5, 0.9))
        gain = np.clip((to_high - to_low) / max(high - low, 1e-3), 0.5, 2.0)
        picture = picture.copy()
        picture[..., channel] = (picture[..., channel] - middle) * gain + to_middle
    return picture


def _unmatched(one: Floats, other: Floats) -> Floats:
    padded = np.pad(other, ((_REACH, _REACH), (_REACH, _REACH), (0, 0)), mode="edge")
    best = np.full(one.shape[:2], np.inf, np.float32)
    for down in range(2 * _REACH + 1):
        for across in range(2 * _REACH + 1):
            near = padded[down : down + one.shape[0], across : across + one.shape[1]]
            best = np.minimum(best, np.abs(one - near).mean(axis=2))
    return best


def _averaged(values: Floats) -> Floats:
    summed = np.cumsum(np.cumsum(np.pad(values, ((1, 0), (1, 0))), axis=0), axis=1)
    step = _PATCH
    means = summed[step:, step:] - summed[:-step, step:] - summed[step:, :-step] + summed[:-step, :-step]
    return np.asarray(means / step**2, np.float32)
