"""What pixels tell of a changed place: on which side a thing stands there, whether its colours stayed, how it moved."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Corners = npt.NDArray[np.floating]  # left, top, right, bottom, as parts of the image

_BINS = 4  # of each colour channel
_WORKING = 320  # pixels of the longer side that are enough to judge by


class Traces:
    """Two images that lie on each other, and where they differ."""

    def __init__(self, before: Pixels, after: Pixels, mask: Mask) -> None:
        scale = min(1.0, _WORKING / max(mask.shape))
        size = (max(8, round(mask.shape[1] * scale)), max(8, round(mask.shape[0] * scale)))
        self.size, self._area = size, mask.size
        self.images: list[Pixels] = [
            np.asarray(cv2.resize(each, size, interpolation=cv2.INTER_AREA), np.uint8) for each in (before, after)
        ]
        self.mask: Mask = cv2.resize(mask.view(np.uint8), size, interpolation=cv2.INTER_AREA) > 0
        self._sums = cv2.integral(self.mask.view(np.uint8))
        self._total = max(1, int(self.mask.sum()))

    @property
    def area(self) -> int:
        """Pixels of an image as it came, which sizes of findings count."""
        return self._area

    def cut(self, box: Corners, *, room: float = 0.0) -> tuple[slice, slice]:
        """Rows and columns of a box, wider by `room` of it on every side."""
        box = _wider(box, room) if room else box
        width, height = self.size
        left, top = int(np.clip(box[0] * width, 0, width - 1)), int(np.clip(box[1] * height, 0, height - 1))
        right, bottom = int(np.ceil(box[2] * width)), int(np.ceil(box[3] * height))
        return slice(top, max(top + 1, min(bottom, height))), slice(left, max(left + 1, min(right, width)))

    def _inside(self, box: Corners) -> int:
        rows, columns = self.cut(box)
        sums = self._sums
        return int(
            sums[rows.stop, columns.stop]
            - sums[rows.start, columns.stop]
            - sums[rows.stop, columns.start]
            + sums[rows.start, columns.start]
        )

    def share(self, box: Corners) -> float:
        """The part of a box that changed."""
        rows, columns = self.cut(box)
        return float(self._inside(box) / ((rows.stop - rows.start) * (columns.stop - columns.start)))

    def part(self, box: Corners) -> float:
        """The part of all that changed that lies in a box."""
        return self._inside(box) / self._total

    def outline(self, box: Corners) -> float:
        """How much stronger the edges along what changed are in before than in after, as a log ratio.

        A thing has an edge where its place begins; the ground that it hides goes on.
        """
        rows, columns = self.cut(box, room=0.1)
        inside = self.mask[rows, columns].view(np.uint8)
        region = cv2.morphologyEx(inside, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
        band = (cv2.dilate(region, np.ones((3, 3), np.uint8)) > 0) & (cv2.erode(region, np.ones((5, 5), np.uint8)) == 0)
        if band.sum() < 8:
            return 0.0
        strengths = []
        for image in self.images:
            grey = cv2.GaussianBlur(cv2.cvtColor(image[rows, columns], cv2.COLOR_RGB2GRAY), (0, 0), 0.8)
            across, down = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
            strengths.append(float(cv2.magnitude(across, down)[band].mean()) + 6.0)
        return float(np.log(strengths[0] / strengths[1]))

    def same_colours(self, box_before: Corners, box_after: Corners) -> float:
        """How much of the colours of one place in before are those of another in after, from 0 to 1."""
        shares = []
        for image, box in zip(self.images, (box_before, box_after), strict=True):
            cut = self.cut(box)
            seen = image[cut][self.mask[cut]] if self.mask[cut].any() else image[cut].reshape(-1, 3)
            bins = (seen.astype(np.int64) * _BINS // 256) @ np.array([_BINS * _BINS, _BINS, 1])
            shares.append(np.bincount(bins, minlength=_BINS**3) / max(1, len(seen)))
        return float(np.minimum(*shares).sum())

    def same_shape(self, box: Corners) -> float:
        """Correlation of the edges of both images at a place."""
        rows, columns = self.cut(box)
        edges = []
        for image in self.images:
            grey = cv2.cvtColor(image[rows, columns], cv2.COLOR_RGB2GRAY)
            across, down = cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)
            edges.append(cv2.magnitude(across, down).ravel())
        if min(each.std() for each in edges) < 1:
            return 0.0
        return float(np.asarray(np.corrcoef(edges[0].astype(np.float64), edges[1].astype(np.float64)))[0, 1])

    def colour_at(self, box: Corners, side: int) -> Pixels:
        """(height, width, 4): what is seen at a place, clear but where it changed most."""
        cut = self.cut(box)
        inside = self.mask[cut]
        if not inside.any():
            inside = np.ones_like(inside)
        # The pixels that differ most are surely the thing's own, not the ground at its rim.
        apart = np.abs(self.images[0][cut].astype(np.int16) - self.images[1][cut]).max(axis=2)
        own = inside & (apart >= np.median(apart[inside]))
        return np.dstack([self.images[side][cut], np.where(own, 255, 0).astype(np.uint8)])


def hottest(heat: npt.NDArray[np.float32], box: Corners) -> float:
    """The highest of (images, rows, columns) within a box."""
    rows, columns = heat.shape[1:]
    left, top, right, bottom = box * np.array([columns, rows, columns, rows])
    inside = heat[:, int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))]
    return float(inside.max(initial=0.0))


def _wider(box: Corners, room: float) -> Corners:
    grown = np.asarray(box, np.float64).copy()
    sides = np.tile((grown[2:] - grown[:2]) * room, 2)
    grown[:2] -= sides[:2]
    grown[2:] += sides[2:]
    return grown
