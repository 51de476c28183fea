"""Changes of the whole picture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spotchange.comparison.places import count
from spotchange.comparison.result import Finding
from spotchange.comparison.verdict import Verdict

Pixels = npt.NDArray[np.uint8]


def describe_whole(before: Pixels, after: Pixels, verdict: Verdict) -> list[Finding]:
    """Findings that explain all differences at once, or none."""
    return []


def describe_size(before: Pixels, after: Pixels) -> list[Finding]:
    """How the sizes differ."""
    (height, width), (new_height, new_width) = before.shape[:2], after.shape[:2]
    steps = []
    if new_height != height:
        steps.append(f"{count(abs(new_height - height))} {'taller' if new_height > height else 'shorter'}")
    if new_width != width:
        steps.append(f"{count(abs(new_width - width))} {'wider' if new_width > width else 'narrower'}")
    if not steps:
        return []
    return [
        Finding(
            kind="size",
            sentence=f"the picture is {' and '.join(steps)} ({width}x{height} to {new_width}x{new_height})",
            boxes_before=((0, 0, width, height),),
            boxes_after=((0, 0, new_width, new_height),),
        )
    ]
