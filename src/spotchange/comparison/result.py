"""What a comparison says: the verdict in numbers, and findings in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.comparison.kinds import CHANGE_TYPE_OF
from spotchange.results import Finding as Finding  # findings are part of what a comparison says

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The verdict about two images and the account of what happened."""

    preset: str
    identical: bool
    """Every pixel of both images is the same, whatever the tolerances and the ignored rectangles."""
    changed: bool
    """The images differ beyond the tolerances."""
    diff_pixels: int
    """Pixels that count as differing: beyond the threshold, not ignored. What only one image covers counts."""
    diff_ratio: float
    largest_difference: float
    """The largest YIQ distance of any pixel not ignored, from 0 to 1, on the scale of the threshold."""
    size_before: tuple[int, int]
    size_after: tuple[int, int]
    summary: str
    """One or a few sentences: at most three findings, and how many more."""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """What else a reader should know: another colour profile, text that could not be read."""
    mask: Mask = field(default_factory=lambda: np.zeros((0, 0), bool), repr=False, compare=False)
    """(height, width) of the larger sides: the pixels counted, laid from the top left."""

    @property
    def change_type(self) -> str | None:
        """The captioning world's word for the first finding, "none" if unchanged, None if it has no word."""
        if not self.changed:
            return "none"
        return CHANGE_TYPE_OF.get(self.findings[0].kind) if self.findings else None

    def heat(self, rows: int, columns: int) -> npt.NDArray[np.float32]:
        """Where pixels differ, (rows, columns) in [0, 1]; one differing pixel is enough to show."""
        height, width = self.mask.shape
        heat = np.zeros((rows, columns), np.float32)
        down, across = np.nonzero(self.mask)
        if len(down):
            places = down * rows // height * columns + across * columns // width
            share = np.bincount(places, minlength=rows * columns) / max(1.0, height * width / (rows * columns))
            heat = np.where(share > 0, 0.35 + 0.65 * np.minimum(share, 1), 0).reshape(rows, columns)
        return heat.astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the mask left out."""
        return {
            "preset": self.preset,
            "identical": self.identical,
            "changed": self.changed,
            "diff_pixels": self.diff_pixels,
            "diff_ratio": self.diff_ratio,
            "largest_difference": self.largest_difference,
            "size_before": list(self.size_before),
            "size_after": list(self.size_after),
            "change_type": self.change_type,
            "summary": self.summary,
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }
