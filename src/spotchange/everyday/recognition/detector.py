"""Things of eighty kinds with their boxes: SSDLite on MobileNetV2, trained on COCO, on onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Floats = npt.NDArray[np.float32]

SIDE = 300  # pixels of the square it looks at
_CENTRE, _SIZE = 10.0, 5.0  # how its box encodings are scaled
OVERLAP = 0.5  # of two boxes of one kind: more, and they are one thing
LEAST = 0.1  # score below which a box says nothing
MOST = 40  # boxes of an image
_CANDIDATES = 300  # before overlapping ones are dropped


@dataclass(frozen=True, eq=False)
class Detected:
    """Boxes of one image, best first."""

    boxes: Floats  # (things, 4): left, top, right, bottom, as parts of the image
    classes: npt.NDArray[np.int64]  # (things,): COCO's own numbers, from 1
    scores: Floats  # (things,)


class Detector:
    """The network with its decoding. Safe to call from several threads."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, images: Sequence[Image.Image]) -> list[Detected]:
        """What each image shows."""
        batch = np.stack([_prepared(each) for each in images])
        boxes, scores, anchors = self._session.run(["boxes", "scores", "anchors"], {"pictures": batch})
        return [_kept(decoded(each, anchors), score[:, 1:]) for each, score in zip(boxes, scores, strict=True)]


def _prepared(image: Image.Image) -> Floats:
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(np.asarray(small, np.float32).transpose(2, 0, 1) * np.float32(2 / 255) - 1, np.float32)


def decoded(encodings: Floats, anchors: Floats) -> Floats:
    """Box encodings (boxes, 4), relative to anchors, as left, top, right, bottom; both in the order y, x."""
    height, width = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
    y = encodings[:, 0] / _CENTRE * height + anchors[:, 0] + height / 2
    x = encodings[:, 1] / _CENTRE * width + anchors[:, 1] + width / 2
    half_height, half_width = np.exp(encodings[:, 2] / _SIZE) * height / 2, np.exp(encodings[:, 3] / _SIZE) * width / 2
    return np.stack([x - half_width, y - half_height, x + half_width, y + half_height], axis=1)


def _kept(boxes: Floats, scores: Floats) -> Detected:
    places, kinds = np.nonzero(scores >= LEAST)
    return _best_of(boxes[places].clip(0, 1), kinds + 1, scores[places, kinds])


def _best_of(boxes: Floats, classes: npt.NDArray[np.int64], scores: Floats) -> Detected:
    """Of boxes that show one thing the best; kinds apart, as a hand and its cup share a box."""
    order = np.argsort(-scores, kind="stable")[:_CANDIDATES]
    boxes, classes, scores = boxes[order], classes[order], scores[order]
    kept: list[int] = []
    for place in range(len(scores)):
        same = [each for each in kept if classes[each] == classes[place]]
        if not same or overlaps(boxes[place], boxes[same]).max() < OVERLAP:
            kept.append(place)
        if len(kept) == MOST:
            break
    return Detected(boxes[kept], classes[kept], scores[kept])


def overlaps(box: Floats, others: Floats) -> Floats:
    """Intersection over union of one box with many, corners given."""
    corner = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = corner.clip(0).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    return np.asarray(shared / np.maximum(areas - shared, 1e-9), np.float32)
