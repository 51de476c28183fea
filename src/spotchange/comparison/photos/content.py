"""What differs between two photos that lie on each other in the same light: few regions, beyond their own noise."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.results import Box

Field = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

WORKING_SIDE = 640  # pixels; what is smaller than a pixel there is noise in a photo
LEAST, MOST = 16.0, 55.0  # levels: no noise measured makes the tolerance smaller or larger
NOISE = 4.0  # standard deviations
EDGE = 0.55  # of the local contrast, for what a fraction of a pixel still displaces
SMALLEST = 0.0012  # of the image
THINNEST = 0.010  # of the longer side
STRONG = 1.6  # times the tolerance that some of a region must reach
PLACE = 9  # pixels of a side
JOIN = 0.02  # of the longer side: regions nearer than this are one


@dataclass(frozen=True, eq=False)
class DifferingRegion:
    """A changed place, in pixels of the working size."""

    mask: Mask
    box: Box
    strength: float


@dataclass(frozen=True, eq=False)
class Content:
    """Both photos at the working size, and where they differ."""

    before: Field  # (height, width, 3)
    after: Field
    difference: Field  # in parts of the tolerance
    levels: Field  # of 255, averaged over places
    tolerance: float
    regions: list[DifferingRegion]
    scale: float


def differing_content(before: Field, after: Field, valid: Mask) -> Content:
    """Compare two photos of the same frame and light, at the working size."""
    height, width = before.shape[:2]
    scale = min(1.0, WORKING_SIDE / max(height, width))
    size = (max(8, round(width * scale)), max(8, round(height * scale)))
    one, other = _working(before, size), _working(after, size)
    inside = cv2.resize(valid.view(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    difference = np.abs(one - other).max(axis=2)
    tolerance = _tolerance(one - other, inside)
    allowed = tolerance + EDGE * np.minimum(_contrast(one), _contrast(other))
    excess = np.where(inside, difference / allowed, 0).astype(np.float32)
    regions = _regions(excess, inside)
    return Content(one, other, excess, _levels(one - other, inside), tolerance, regions, scale)


def _working(pixels: Field, size: tuple[int, int]) -> Field:
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.GaussianBlur(small, (0, 0), 1.0), np.float32)


def _tolerance(difference: Field, inside: Mask) -> float:
    """A few deviations of the noise both images show where nothing happens."""
    values = np.ascontiguousarray(difference[inside].T)  # medians along rows, not down columns of three
    if not values.size:
        return LEAST
    deviation = 1.4826 * float(np.median(np.abs(values - np.median(values, axis=1)[:, None])))
    return float(np.clip(NOISE * deviation, LEAST, MOST))


def _levels(difference: Field, inside: Mask) -> Field:
    """By how much places differ: of grain and blocks, which have either sign, little is left."""
    averaged = np.abs(cv2.blur(difference, (PLACE, PLACE))).max(axis=2)
    return np.where(inside, averaged, 0).astype(np.float32)


def _contrast(pixels: Field) -> Field:
    """How much the level changes within a pixel's neighbourhood."""
    grey = pixels.mean(axis=2)
    square = np.ones((3, 3), np.uint8)
    return cv2.dilate(grey, square) - cv2.erode(grey, square)


def _regions(excess: Field, inside: Mask) -> list[DifferingRegion]:
    height, width = excess.shape
    side = max(height, width)
    mask = (excess > 1).astype(np.uint8)
    mask = np.asarray(cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)), np.uint8)
    reach = max(3, round(JOIN * side))
    near = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach)))
    total, labels, stats, _ = cv2.connectedComponentsWithStats(near, connectivity=8)
    rim = cv2.erode(inside.view(np.uint8), np.ones((7, 7), np.uint8), borderType=cv2.BORDER_REPLICATE) == 0
    found = []
    for label in range(1, total):
        x, y, w, h, _ = (int(each) for each in stats[label])
        part = (labels[y : y + h, x : x + w] == label) & (mask[y : y + h, x : x + w] > 0)
        area = int(part.sum())
        if area < SMALLEST * height * width or area / max(w, h) < THINNEST * side:
            continue
        values = excess[y : y + h, x : x + w][part]
        if np.quantile(values, 0.9) < STRONG or rim[y : y + h, x : x + w][part].mean() > 0.5:
            continue
        whole = np.zeros(excess.shape, bool)
        whole[y : y + h, x : x + w] = labels[y : y + h, x : x + w] == label
        found.append(DifferingRegion(whole, (x, y, w, h), float(values.mean())))
    return sorted(found, key=lambda region: -int(region.mask.sum()) * region.strength)
