"""Changes of a whole photo: mirrored, without colours, blurred, cropped, in much more or less light."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.comparison.photos.judging import PhotoVerdict

_SIDE = 64
_LIKE = 0.9  # correlation of small grey pictures that show the same
_COLOURFUL = 0.03  # mean difference between channels, of the range
_COLOURLESS = 0.15  # of the colours are left, at most, in a grey picture
_BRIGHTER = 1.3  # times as bright, far more than what a camera corrects by itself
_SHARP = 0.4  # of the fine detail that is left in a blurred picture
_SCATTERED = 0.03  # of a photo that may differ beside the change of the whole

Floats = npt.NDArray[np.float32]


def whole_change(before: Image.Image, after: Image.Image, verdict: PhotoVerdict) -> str | None:
    """The kind of change, if all of the picture changed and nothing in it; None otherwise."""
    one, other = _small(before), _small(after)
    grey_one, grey_other = one.mean(axis=2), other.mean(axis=2)
    straight, mirrored = _correlation(grey_one, grey_other), _correlation(grey_one, grey_other[:, ::-1])
    if mirrored >= _LIKE and mirrored > straight + 0.1:
        return "mirror"
    if verdict.mask.mean() > _SCATTERED and straight < _LIKE:
        return None
    colourful = [float(np.ptp(each, axis=2).mean()) for each in (one, other)]
    if colourful[0] > _COLOURFUL and colourful[1] < _COLOURLESS * colourful[0]:
        return "gray"
    if verdict.changed:
        return None
    ratio = (grey_other.mean() + 0.02) / (grey_one.mean() + 0.02)
    if ratio >= _BRIGHTER or ratio <= 1 / _BRIGHTER:
        return "brighter" if ratio > 1 else "darker"
    details = [_detail(each) for each in (before, after)]
    return "blur" if details[1] < _SHARP * details[0] and details[0] > 1.0 else None


def _small(picture: Image.Image) -> Floats:
    small = np.asarray(picture.resize((_SIDE, _SIDE), Image.Resampling.BOX, reducing_gap=2.0), np.float32)
    return small / np.float32(255)


def _correlation(one: Floats, other: Floats) -> float:
    if one.std() < 0.01 or other.std() < 0.01:
        return 0.0
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def _detail(picture: Image.Image) -> float:
    grey = cv2.cvtColor(np.asarray(picture), cv2.COLOR_RGB2GRAY)
    return float(np.abs(cv2.Laplacian(grey, cv2.CV_32F)).mean())
