"""The same thing looked for in the other image: where it went, upright or turned, as large as before or not.

Templates at a hundredth of the image's width are coarse enough for a turned view to still correlate and cost less
than a millisecond each.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Corners = npt.NDArray[np.floating]  # left, top, right, bottom, as parts of the image

SIDE = 96  # pixels of the longer side that is searched
_RIM = 8  # pixels beyond the edge where a thing may lie in part
_LEAST = 4  # pixels of a template's shorter side
_FLAT = 4.0  # levels: a template that varies less looks like everything
_CHANGED = 0.12  # part of a place that must have changed for a thing to have come there
_LARGER, _SMALLER = 1.7, 0.57
FEW = ("same", "far", "here")
ALL = (*FEW, "quarter", "half", "larger", "smaller")


class Elsewhere:
    """Two images that lie on each other, made small, and where they differ."""

    def __init__(self, images: Sequence[npt.NDArray[np.uint8]], mask: Mask) -> None:
        scale = SIDE / max(mask.shape)
        size = (max(8, round(mask.shape[1] * scale)), max(8, round(mask.shape[0] * scale)))
        small = [cv2.resize(each, size, interpolation=cv2.INTER_AREA) for each in images]
        self.size = size
        self._images = [np.asarray(cv2.cvtColor(each, cv2.COLOR_RGB2LAB), np.float32) for each in small]
        self._padded = [cv2.copyMakeBorder(each, *(_RIM,) * 4, cv2.BORDER_REFLECT) for each in self._images]
        changed = cv2.resize(mask.view(np.uint8), size, interpolation=cv2.INTER_AREA) > 0
        self._changed = cv2.copyMakeBorder(changed.astype(np.float32), *(_RIM,) * 4, cv2.BORDER_CONSTANT)

    def search(self, box: Corners, side: int, names: Sequence[str]) -> dict[str, float]:
        """What is at `box` of one image, looked for at changed places of the other: correlations from 0 to 1.

        `far` is how far away the best match lies, in sizes of the thing, `here` the correlation with its own place.
        """
        found = dict.fromkeys(names, 0.0)
        width, height = self.size
        left, top = (int(max(0.0, each)) for each in box[:2] * (width, height))
        right, bottom = (int(np.ceil(each)) for each in box[2:] * (width, height))
        template = self._images[side][top : min(bottom, height), left : min(right, width)]
        if min(template.shape[:2]) < _LEAST or template.std() < _FLAT:
            return found
        scores, best, at = self._matched(template, side)
        if scores is not None:
            middle = np.array([left + template.shape[1] / 2, top + template.shape[0] / 2])
            away = float(np.linalg.norm(at - middle) / np.sqrt(template.shape[0] * template.shape[1]))
            here = scores[min(top + _RIM, scores.shape[0] - 1), min(left + _RIM, scores.shape[1] - 1)]
            found |= {"same": best, "far": min(4.0, away), "here": float(here)}
        if "quarter" in names:
            turned = [np.ascontiguousarray(np.rot90(template, times)) for times in (1, 2, 3)]
            found["quarter"] = max(self._matched(turned[each], side)[1] for each in (0, 2))
            found["half"] = self._matched(turned[1], side)[1]
            for name, factor in (("larger", _LARGER), ("smaller", _SMALLER)):
                how = cv2.INTER_LINEAR if factor > 1 else cv2.INTER_AREA
                scaled = cv2.resize(template, None, fx=factor, fy=factor, interpolation=how)
                found[name] = self._matched(np.asarray(scaled, np.float32), side)[1]
        return found

    def _matched(self, template: Field, side: int) -> tuple[Field | None, float, npt.NDArray[np.float64]]:
        """All correlations, the best one at a changed place, and that place's middle."""
        searched = self._padded[1 - side]
        rows, columns = template.shape[:2]
        if rows > searched.shape[0] or columns > searched.shape[1] or min(rows, columns) < _LEAST:
            return None, 0.0, np.zeros(2)
        scores = np.nan_to_num(cv2.matchTemplate(searched, template, cv2.TM_CCOEFF_NORMED), posinf=0, neginf=0)
        weights = np.full((rows, columns), 1 / (rows * columns), np.float32)
        share = cv2.matchTemplate(self._changed, weights, cv2.TM_CCORR)
        allowed = np.where(share > _CHANGED, scores, -1)
        down, across = np.unravel_index(int(allowed.argmax()), allowed.shape)
        middle = np.array([across + columns / 2 - _RIM, down + rows / 2 - _RIM])
        return np.asarray(scores, np.float32), max(0.0, float(allowed[down, across])), middle
