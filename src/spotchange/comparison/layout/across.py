"""Content pushed sideways within a place: the row alignment, turned by a quarter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.gap import Gap
from spotchange.comparison.layout.gaps import describe_gaps
from spotchange.comparison.layout.regions import Frame
from spotchange.comparison.layout.rows import matching_blocks, row_keys
from spotchange.comparison.place.colours import pack
from spotchange.comparison.place.patches import Patch
from spotchange.comparison.result import Finding

NARROWEST = 40  # pixels of a place that can hold something pushed and something that pushes
FEWEST_COLUMNS = 10  # with ink, that must have moved together


def describe_across(
    before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], patch: Patch, size: tuple[int, int]
) -> list[Finding]:
    """Findings where columns of the place moved to the side together, otherwise none."""
    x, y, width, height = patch.box_before
    if width < NARROWEST or patch.box_before != patch.box_after or patch.ground is None:
        return []
    one, other = (pack(pixels[y : y + height, x : x + width]).T for pixels in (before, after))
    keys = row_keys(one), row_keys(other)
    blocks = matching_blocks(*keys)
    inked = (one != patch.ground).any(axis=1)
    moved = sum(
        int(np.count_nonzero(inked[start : start + columns]))
        for start, new_start, columns in blocks
        if new_start != start
    )
    if moved < FEWEST_COLUMNS or moved < 0.2 * np.count_nonzero(inked):
        return []
    turned = before.transpose(1, 0, 2), after.transpose(1, 0, 2)
    gaps = []
    at_before, at_after = 0, 0
    for start, new_start, columns in [*blocks, (width, width, 0)]:
        if start - at_before != new_start - at_after:
            frame = Frame(y, y + height, x + at_before, x + start, x + at_after, x + new_start)
            gaps.append(Gap(frame, *turned, across=True))
        at_before, at_after = start + columns, new_start + columns
    return describe_gaps(gaps, size)
