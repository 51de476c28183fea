"""Rows of one image that stand for fewer or more rows of the other, and what lies in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.regions import Frame, bounds
from spotchange.comparison.place.colours import most_common, pack
from spotchange.comparison.place.textlike import text_lines
from spotchange.results import Box

REMAINS = 0.15  # of the rows: what one side shows of fewer rows is an edge of what the other has
ONE_LINE, LEADING = 40, 0.4  # rows of letters at most, and the room above and below, of their height


@dataclass(frozen=True, eq=False)
class Gap:
    """A frame with more rows on one side than on the other."""

    frame: Frame
    before: npt.NDArray[np.uint8]
    after: npt.NDArray[np.uint8]
    across: bool = False
    """The images are given with rows and columns exchanged, so that rows here are columns there."""

    def outward(self, box: Box) -> Box:
        """A rectangle as one of the upright image."""
        return (box[1], box[0], box[3], box[2]) if self.across else box

    @cached_property
    def words(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """The rows of each side, one integer a pixel."""
        frame = self.frame
        columns = slice(frame.left, frame.right)
        return (
            pack(self.before[frame.before_top : frame.before_bottom, columns]),
            pack(self.after[frame.after_top : frame.after_bottom, columns]),
        )

    @cached_property
    def ground(self) -> npt.NDArray[np.uint32]:
        """The row next to the gap that hides most of it, (columns,) packed: pages have panels side by side."""
        frame = self.frame
        columns = slice(frame.left, frame.right)
        near = [
            pack(image[row, columns])
            for image, rows in (
                (self.before, (frame.before_top - 1, frame.before_bottom)),
                (self.after, (frame.after_top - 1, frame.after_bottom)),
            )
            for row in rows
            if 0 <= row < len(image)
        ]
        if not near:
            flat = most_common(np.concatenate([words.ravel() for words in self.words]))[0]
            return np.full(frame.right - frame.left, flat, np.uint32)
        return min(near, key=lambda row: sum(np.count_nonzero(words != row) for words in self.words))

    def content(self, side: int) -> Box | None:
        """What is not ground on one side, in the image's own pixels."""
        box = bounds(self.words[side] != self.ground)
        if box is None or box[3] <= REMAINS * max(self.frame.before_rows, self.frame.after_rows):
            return None
        top = self.frame.before_top if side == 0 else self.frame.after_top
        return box[0] + self.frame.left, box[1] + top, box[2], box[3]

    def differing(self, side: int) -> Box:
        """The rows with content on one side, as far as the other image differs there."""
        content = self.content(side)
        assert content is not None
        frame = self.frame
        top, bottom = (frame.before_top, frame.before_bottom) if side == 0 else (frame.after_top, frame.after_bottom)
        if content[3] <= ONE_LINE:
            # A line of text takes more room than its letters.
            room = round(LEADING * self._line_height(side))
            top, bottom = max(top, content[1] - room), min(bottom, content[1] + content[3] + room)
        else:
            top, bottom = content[1], content[1] + content[3]
        rows = min(bottom, len(self.before), len(self.after)) - top
        columns = slice(self.frame.left, self.frame.right)
        one, other = (image[top : top + max(rows, 0), columns] for image in (self.before, self.after))
        box = bounds((one != other).any(axis=2)) if rows > 0 else None
        return (box[0] + self.frame.left, box[1] + top, box[2], box[3]) if box else content

    def _line_height(self, side: int) -> int:
        """Rows of the tallest line of text on one side."""
        return max((bottom - top for top, bottom in text_lines(self.words[side] != self.ground)), default=0)

    @property
    def growth(self) -> int:
        """Rows that after has more."""
        return self.frame.after_rows - self.frame.before_rows
