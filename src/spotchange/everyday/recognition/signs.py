"""How two photos differ as a whole, in numbers with names; and a changed place with what is seen there."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.photos.judging import PhotoVerdict
from spotchange.everyday.recognition.evidence import Chances
from spotchange.everyday.recognition.traces import Corners, Pixels

LOCAL = ("moved", "appeared", "disappeared", "recoloured", "replaced")  # findings that have a place

Signs = dict[str, float]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Place:
    """A changed place and what is seen there, before and after."""

    kind: str  # the comparison's finding
    pixels: int
    boxes: tuple[Corners, Corners]
    chances: Chances  # (2, nouns + 1)

    @property
    def box(self) -> Corners:
        """All of it; where it moved, what it left."""
        if self.kind == "moved":
            return self.boxes[0]
        both = np.stack(self.boxes)
        return np.concatenate([both[:, :2].min(axis=0), both[:, 2:].max(axis=0)])


def whole_signs(before: Pixels, after: Pixels, verdict: PhotoVerdict) -> Signs:
    """How the images differ as a whole: light, colours, sharpness, view, and how much of them changed."""
    one, seen, laid = (_small(each) for each in (before, after, verdict.after))
    grey = [each.mean(axis=2) for each in (one, seen, laid)]
    gain, offset = _light(one, laid)
    colourful = [float(np.ptp(each, axis=2).mean()) + 0.005 for each in (one, seen)]
    detail = [_detail(each) + 0.3 for each in (before, after)]
    return {
        "straight": _correlation(grey[0], grey[1]),
        "mirrored": _correlation(grey[0], grey[1][:, ::-1]),
        "aligned": _correlation(grey[0], grey[2]),
        "gain": float(np.log(gain).mean()),
        "offset": float(offset.mean()),
        "brighter": float(np.log((seen.mean() + 0.02) / (one.mean() + 0.02))),
        "colourful": float(np.log(colourful[1] / colourful[0])),
        "colourful before": colourful[0],
        "detail": float(np.log(detail[1] / detail[0])),
        "detail before": float(np.log(detail[0])),
        "zoom": float(np.log(max(verdict.zoom, 0.1))),
    }


def _small(pixels: Pixels) -> Floats:
    return np.asarray(cv2.resize(pixels, (64, 64), interpolation=cv2.INTER_AREA), np.float32) / np.float32(255)


def _correlation(one: Floats, other: Floats) -> float:
    if one.std() < 0.01 or other.std() < 0.01:
        return 0.0
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def _detail(pixels: Pixels) -> float:
    return float(np.abs(cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F)).mean())


def _light(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Gain and offset of each channel from before to after, by the four fifths that fit best."""
    first, second = one.reshape(-1, 3), other.reshape(-1, 3)
    keep = np.ones(len(first), bool)
    for _ in range(4):
        a, b = first[keep], second[keep]
        together = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).mean(axis=0)
        gain = np.clip(together / np.maximum(a.var(axis=0), 1e-5), 0.2, 4)
        offset = b.mean(axis=0) - gain * a.mean(axis=0)
        error = np.abs(second - first * gain - offset).max(axis=1)
        keep = error <= max(float(np.quantile(error, 0.8)), 0.004)
    return gain, offset
