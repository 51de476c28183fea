"""The view of one photo brought to that of another: features and RANSAC, refined by the pixels themselves."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import distance

Pixels = npt.NDArray[np.uint8]
Matrix = npt.NDArray[np.float64]

FEATURE_SIDE = 900  # pixels; features of larger images are found at this size
FEWEST_AGREEING = 16
SMALLEST_SHARE = 0.2  # of the matches must agree on one view
WIDEST_THING = 0.3  # of the image
NOTICED = 1.5  # pixels a corner must move before the camera did
LARGEST_FLOW = 0.012  # of the longer side: what parallax and a soft lens may still displace
GOOD, POOR = 0.6, 0.3  # correlation of edges after aligning
STILL = 0.97  # correlation of edges from which on no other view is looked for: the camera stood still


@dataclass(frozen=True, eq=False)
class Alignment:
    """After in before's frame."""

    after: Pixels
    valid: npt.NDArray[np.bool_]
    """Where before's frame is covered by after."""
    sentence: str | None
    """How the camera moved, if it did."""
    trust: float
    """Correlation of the edges of both images after aligning, robustly from 0 to 1."""
    zoom: float
    """How much larger things are in after; 1 where no view was found."""

    @property
    def good(self) -> bool:
        """Whether most of the image lies on top of the other."""
        return self.trust >= POOR


def align_photos(before: Pixels, after: Pixels) -> Alignment:
    """Find the view that puts after on before best; staying as it is counts as one."""
    height, width = before.shape[:2]
    start = np.diag([width / after.shape[1], height / after.shape[0], 1.0])
    warped, valid = _warp(after, start, (width, height))
    results = [(_trust(before, warped, valid), start, warped, valid)]
    found = _homography(before, after) if results[0][0] < STILL else None
    if found is not None:
        warped, valid = _warp(after, found, (width, height))
        results.append((_trust(before, warped, valid), found, warped, valid))
    best = max(results, key=lambda result: result[0] + (0.02 if result[1] is start else 0.0))
    trust, matrix, warped, valid = best
    if matrix is not start or trust < GOOD:
        refined = _refine(before, after, matrix)
        if refined is not None:
            again, covered = _warp(after, refined, (width, height))
            better = _trust(before, again, covered)
            if better > trust + 0.005:
                trust, matrix, warped, valid = better, refined, again, covered
    warped = _flow(before, warped) if trust >= POOR else warped
    relative = matrix @ np.linalg.inv(start)
    sentence = _camera(relative, width, height) if trust >= GOOD else None
    return Alignment(warped, valid, sentence, trust, _zoom(relative, width, height) if trust >= POOR else 1.0)


def _grey(pixels: Pixels, side: int = FEATURE_SIDE) -> tuple[npt.NDArray[np.uint8], float]:
    scale = min(1.0, side / max(pixels.shape[:2]))
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    if scale < 1:
        grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return grey, scale  # type: ignore[return-value]


def _homography(before: Pixels, after: Pixels) -> Matrix | None:
    """The perspective map from after to before that most features agree on."""
    finder = cv2.SIFT_create(2000)  # type: ignore[attr-defined]
    points, descriptors = [], []
    for pixels in (before, after):
        grey, scale = _grey(pixels)
        keys, described = finder.detectAndCompute(grey, None)
        if described is None or len(keys) < FEWEST_AGREEING:
            return None
        points.append(np.array([key.pt for key in keys]) / scale)
        descriptors.append(described)
    pairs = [
        pair[0]
        for pair in cv2.BFMatcher(cv2.NORM_L2).knnMatch(descriptors[1], descriptors[0], k=2)
        if len(pair) == 2 and pair[0].distance < 0.78 * pair[1].distance
    ]
    if len(pairs) < FEWEST_AGREEING:
        return None
    old = points[0][[pair.trainIdx for pair in pairs]]
    new = points[1][[pair.queryIdx for pair in pairs]]
    cv2.setRNGSeed(17)
    matrix, agree = cv2.findHomography(new, old, cv2.USAC_MAGSAC, 2.5, maxIters=5000, confidence=0.999)
    if matrix is None or agree.sum() < max(FEWEST_AGREEING, SMALLEST_SHARE * len(pairs)):
        return None
    # Features of one thing alone tell how that thing moved, not the camera.
    hull = cv2.convexHull(old[agree.ravel() > 0].astype(np.float32))
    if cv2.contourArea(hull) < WIDEST_THING * before.shape[0] * before.shape[1]:
        return None
    found = np.asarray(matrix, np.float64)
    return found if _plausible(found, after.shape[1], after.shape[0]) else None


def _plausible(matrix: Matrix, width: int, height: int) -> bool:
    """A hand moves a camera; it does not fold the image or shrink it to a tenth."""
    corners = _corners(matrix, width, height)
    area = cv2.contourArea(corners.astype(np.float32)) / (width * height)
    return bool(cv2.isContourConvex(corners.astype(np.float32)) and 0.2 < area < 5)


def _corners(matrix: Matrix, width: int, height: int) -> npt.NDArray[np.float64]:
    frame = np.array([[[0, 0]], [[width, 0]], [[width, height]], [[0, height]]], np.float64)
    return np.asarray(cv2.perspectiveTransform(frame, matrix)[:, 0], np.float64)


def _warp(after: Pixels, matrix: Matrix, size: tuple[int, int]) -> tuple[Pixels, npt.NDArray[np.bool_]]:
    if after.shape[1::-1] == size and np.allclose(matrix, np.eye(3)):
        return after, np.ones(after.shape[:2], bool)
    warped = cv2.warpPerspective(after, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
    inside = cv2.warpPerspective(np.full(after.shape[:2], 255, np.uint8), matrix, size)
    return warped, cv2.erode(inside, np.ones((5, 5), np.uint8)) == 255  # type: ignore[return-value]


def _trust(before: Pixels, warped: Pixels, valid: npt.NDArray[np.bool_]) -> float:
    """How well edges agree, by blocks, so that one moved thing does not spoil the whole."""
    if valid.mean() < 0.25:
        return 0.0
    one, _ = _grey(before, 320)
    other, _ = _grey(warped, 320)
    inside = cv2.resize(valid.view(np.uint8), one.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
    edges = [cv2.GaussianBlur(_gradient(each), (0, 0), 1.0) for each in (one, other)]
    scores, weights = [], []
    rows, columns = 6, 6
    for row in range(rows):
        for column in range(columns):
            block = (
                slice(row * one.shape[0] // rows, (row + 1) * one.shape[0] // rows),
                slice(column * one.shape[1] // columns, (column + 1) * one.shape[1] // columns),
            )
            first, second = edges[0][block][inside[block]], edges[1][block][inside[block]]
            if len(first) < 50 or first.std() < 2 or second.std() < 2:
                continue
            scores.append(float(np.corrcoef(first, second)[0, 1]))
            weights.append(float(first.std()))
    if not scores:
        return 0.5  # flat images lie on each other any way
    return float(np.clip(np.median(np.array(scores)), 0, 1))


def _gradient(grey: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    across, down = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
    return cv2.magnitude(across, down) / 4  # type: ignore[return-value]


def _refine(before: Pixels, after: Pixels, matrix: Matrix) -> Matrix | None:
    """Let the pixels decide about the last fractions (ECC, Evangelidis and Psarakis 2008)."""
    one, scale = _grey(before, 480)
    other, scale_other = _grey(after, 480)
    to_small, from_small = np.diag([scale, scale, 1.0]), np.diag([1 / scale_other, 1 / scale_other, 1.0])
    start = np.linalg.inv(to_small @ matrix @ from_small).astype(np.float32)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 40, 1e-5)
    try:
        _, found = cv2.findTransformECC(one, other, start, cv2.MOTION_HOMOGRAPHY, criteria, None, 5)  # type: ignore[call-overload]
    except cv2.error:  # it says so when it does not converge
        return None
    refined = np.linalg.inv(to_small) @ np.linalg.inv(found.astype(np.float64)) @ np.linalg.inv(from_small)
    refined /= refined[2, 2]
    return refined if _plausible(refined, after.shape[1], after.shape[0]) else None


def _flow(before: Pixels, warped: Pixels) -> Pixels:
    """Take out what parallax leaves: small, smooth displacements, never large ones, which are changes."""
    one, scale = _grey(before, 640)
    other, _ = _grey(warped, 640)
    flow = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_FAST).calc(one, other, None)  # type: ignore[attr-defined]
    smooth = np.dstack([cv2.medianBlur(np.ascontiguousarray(flow[..., n]), 5) for n in (0, 1)])
    smooth = cv2.GaussianBlur(smooth, (0, 0), 6)
    limit = LARGEST_FLOW * max(one.shape)
    length = np.linalg.norm(smooth, axis=2, keepdims=True)
    # Fading to nothing at twice the limit keeps the edge of a moved thing from being dragged along.
    smooth *= np.clip(2 - length / limit, 0, 1)
    height, width = before.shape[:2]
    full = np.asarray(cv2.resize(smooth, (width, height), interpolation=cv2.INTER_LINEAR), np.float32) / scale
    across, down = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    moved = cv2.remap(
        warped, across + full[..., 0], down + full[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT
    )
    return moved  # type: ignore[return-value]


def _zoom(relative: Matrix, width: int, height: int) -> float:
    corners = _corners(relative, width, height)
    across, down = corners[1] - corners[0], corners[3] - corners[0]
    return float(2 / (np.linalg.norm(across) / width + np.linalg.norm(down) / height))


def _camera(relative: Matrix, width: int, height: int) -> str | None:
    """How the view moved, in words."""
    corners = _corners(relative, width, height)
    frame = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    if np.abs(corners - frame).max() < NOTICED:
        return None
    shift = frame.mean(axis=0) - corners.mean(axis=0)  # the content's way, from before to after
    across, zoom = corners[1] - corners[0], _zoom(relative, width, height)
    degrees = -float(np.degrees(np.arctan2(across[1], across[0])))
    right, lower = round(float(shift[0])), round(float(shift[1]))
    steps = []
    if right or lower:
        steps.append(f"the view is shifted {distance(right, lower)}")
    if abs(zoom - 1) >= 0.015:
        steps.append(f"{'nearer' if zoom > 1 else 'further away'}, to {zoom * 100:.0f} %")
    if abs(degrees) >= 0.7:
        steps.append(f"turned by {abs(degrees):.0f} degrees" if abs(degrees) >= 1 else "slightly turned")
    return f"the camera moved: {', '.join(steps) or 'the view is slightly bent'}"
