"""The same content nearer, further or slightly turned: found by features, believed only if the pixels then agree."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.result import Finding

Pixels = npt.NDArray[np.uint8]

FEWEST_MATCHES = 25
ORB_RIM = 31  # pixels along the border where ORB finds no features
SMALLEST_GAIN = 0.4  # of the difference must go when the view is taken out


def describe_view(before: Pixels, after: Pixels) -> Finding | None:
    """Zoomed or turned by a few degrees, or None."""
    matrix = _similarity(before, after)
    if matrix is None:
        return None
    scale = float(np.hypot(matrix[0, 0], matrix[1, 0]))
    degrees = float(np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])))
    if abs(scale - 1) < 0.01 and abs(degrees) < 0.5:
        return None
    height, width = after.shape[:2]
    warped = cv2.warpAffine(before, matrix, (width, height))
    inside = cv2.warpAffine(np.full(before.shape[:2], 255, np.uint8), matrix, (width, height)) == 255
    if inside.mean() < 0.1:
        return None
    left = np.abs(cv2.blur(warped, (5, 5)).astype(np.int16) - cv2.blur(after, (5, 5)))[inside].mean()
    direct = np.abs(cv2.blur(before, (5, 5)).astype(np.int16) - cv2.blur(after, (5, 5)))[inside].mean()
    if left > (1 - SMALLEST_GAIN) * direct:
        return None
    turned = f"turned by {abs(degrees):.1f} degrees to the {'right' if degrees > 0 else 'left'}"
    zoomed = f"zoomed {'in' if scale > 1 else 'out'}, to {scale * 100:.0f} %"
    kind = "zoomed" if abs(scale - 1) >= 0.01 else "rotated"
    said = " and ".join(part for part, is_so in ((zoomed, kind == "zoomed"), (turned, abs(degrees) >= 0.5)) if is_so)
    return Finding(
        kind=kind,
        sentence=f"the picture is {said}",
        boxes_before=((0, 0, before.shape[1], before.shape[0]),),
        boxes_after=((0, 0, width, height),),
        pixels=height * width,
    )


def _similarity(before: Pixels, after: Pixels) -> npt.NDArray[np.float64] | None:
    """Scale, rotation and shift (2, 3) from before to after that most features agree on."""
    scale = min(1.0, 900 / max(*before.shape[:2], *after.shape[:2]))
    if scale * min(*before.shape[:2], *after.shape[:2]) <= ORB_RIM:
        return None  # and reducing such a strip further would leave it no pixels
    finder = cv2.ORB_create(1500)  # type: ignore[attr-defined]
    found = []
    for pixels in (before, after):
        grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        small = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else grey
        found.append(finder.detectAndCompute(small, None))
    if any(descriptors is None or len(descriptors) < FEWEST_MATCHES for _, descriptors in found):
        return None
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(found[0][1], found[1][1])
    if len(pairs) < FEWEST_MATCHES:
        return None
    old = np.array([found[0][0][pair.queryIdx].pt for pair in pairs]) / scale
    new = np.array([found[1][0][pair.trainIdx].pt for pair in pairs]) / scale
    matrix, agree = cv2.estimateAffinePartial2D(old, new, method=cv2.RANSAC, ransacReprojThreshold=3.0 / scale)
    if matrix is None or agree.sum() < max(FEWEST_MATCHES, 0.2 * len(pairs)):
        return None
    return np.asarray(matrix, np.float64)
