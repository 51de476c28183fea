"""From a map of change to boxes around it, and to the names of places in an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from spotchange.results import Box, Region

MOST_REGIONS = 8


def components(flags: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.intp]]:
    """Groups of flagged cells that touch, diagonals included; each as (cells, 2) rows and columns."""
    rows, columns = flags.shape
    unseen = {(int(r), int(c)) for r, c in np.argwhere(flags)}
    groups = []
    while unseen:
        pending = [unseen.pop()]
        group = []
        while pending:
            row, column = pending.pop()
            group.append((row, column))
            for r in range(max(row - 1, 0), min(row + 2, rows)):
                for c in range(max(column - 1, 0), min(column + 2, columns)):
                    if (r, c) in unseen:
                        unseen.discard((r, c))
                        pending.append((r, c))
        groups.append(np.array(group))
    return groups


def boxes_of(
    heat: npt.NDArray[np.floating],
    flags: npt.NDArray[np.bool_],
    *,
    image: Literal["before", "after"],
    size: tuple[int, int],
) -> list[Region]:
    """Boxes in pixels of an image of `size` (width, height), strongest first; a score is the group's peak heat."""
    rows, columns = heat.shape
    width, height = size
    regions = []
    for group in components(flags):
        top, left = group.min(axis=0)
        bottom, right = group.max(axis=0) + 1
        x, y = int(left * width / columns), int(top * height / rows)
        box: Box = (
            x,
            y,
            max(1, int(np.ceil(right * width / columns)) - x),
            max(1, int(np.ceil(bottom * height / rows)) - y),
        )
        score = float(heat[group[:, 0], group[:, 1]].max())
        regions.append(Region(image=image, box=box, score=round(score, 4)))
    return sorted(regions, key=lambda region: -region.score)[:MOST_REGIONS]


def place_of(box: Box, size: tuple[int, int]) -> str:
    """Where in the image a box's centre lies: "top left", "centre", "right" ..."""
    x, y, width, height = box
    column = min(2, int(3 * (x + width / 2) / size[0]))
    row = min(2, int(3 * (y + height / 2) / size[1]))
    if (row, column) == (1, 1):
        return "centre"
    return " ".join(word for word in (("top", "", "bottom")[row], ("left", "", "right")[column]) if word)


def places(regions: Sequence[Region], size: tuple[int, int]) -> list[str]:
    """The distinct places of the regions, in order."""
    return list(dict.fromkeys(place_of(region.box, size) for region in regions))
