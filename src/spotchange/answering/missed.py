"""A change that the pixels show and a model of photos calls none: told, with where it is and a warning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.ignore import without_heat
from spotchange.answering.interface import Answer, CaptionOptions
from spotchange.answering.pair import ImagePair
from spotchange.answering.regions import boxes_of, places

OBVIOUS = 0.13  # of the range from black to white; no control pair came near (docs/experiments)
_SIDE = 72
_REACH = 3  # pixels of the small image that a camera may have moved
_PATCH = 7  # pixels of the small image that are averaged
MISSED = "the model saw no change here, the pixels did: look at the marked places"

Floats = npt.NDArray[np.float32]


def told_if_missed(answer: Answer, options: CaptionOptions) -> Answer:
    """The answer, or what the pixels show where the model calls a pair unchanged that is obviously not the same."""
    if answer.result.changed or answer.result.identical or options.threshold is not None:
        return answer
    apart = without_heat(np.stack([difference_map(answer.pair)] * 2), answer.pair.before.size, options.ignore)
    if apart.max() < OBVIOUS:
        return answer
    heat = np.clip(apart / (2 * OBVIOUS), 0, 1).astype(np.float32)
    regions = tuple(
        region
        for image, side, size in (("before", 0, answer.pair.before.size), ("after", 1, answer.pair.after.size))
        for region in boxes_of(heat[side], heat[side] >= 0.5, image=image, size=size)  # type: ignore[arg-type]
    )
    where = " and ".join(places([region for region in regions if region.image == "after"], answer.pair.after.size)[:3])
    result = replace(
        answer.result,
        caption=f"something has changed: {where}",
        changed=True,
        change_type=None,
        regions=regions,
        source="pixels",
        warnings=(*answer.result.warnings, MISSED),
    )
    return replace(answer, result=result, heat=heat)


def difference_map(pair: ImagePair) -> Floats:
    """(side, side): how much of each place has no match near it in the other image, from 0 to 1.

    Both images are made small and equally bright; what is left, averaged over a patch, is large only where something
    else is seen: a difference that no camera, lamp or encoder explains, for photos that a model calls unchanged.
    """
    before, after = (_small(image.pil) for image in (pair.before, pair.after))
    after = _equally_bright(after, before)
    one_way, other_way = _unmatched(before, after), _unmatched(after, before)
    return _averaged(np.maximum(one_way, other_way))


def _small(image: Image.Image) -> Floats:
    small = np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.BOX, reducing_gap=2.0), np.float32)
    return small / np.float32(255)


def _equally_bright(image: Floats, like: Floats) -> Floats:
    """Gain and offset of each channel, by the middle and the spread, which a change of one thing hardly moves."""
    for channel in range(3):
        low, middle, high = np.quantile(image[..., channel], (0.1, 0.5, 0.9))
        to_low, to_middle, to_high = np.quantile(like[..., channel], (0.1, 0.5, 0.9))
        gain = np.clip((to_high - to_low) / max(high - low, 1e-3), 0.5, 2.0)
        image = image.copy()
        image[..., channel] = (image[..., channel] - middle) * gain + to_middle
    return image


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
