"""Sentences about changes whose thing, place and kind are known as far as the evidence goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import place
from spotchange.everyday.language.naming import Name, fill
from spotchange.everyday.language.wording import DIRECTIONS, THING, stated

Corners = npt.NDArray[np.floating]  # left, top, right, bottom, as parts of the image

_NOTICED = 0.05  # of the image that a thing must move before a direction is told
_CLEAR = 1.6  # times further in the one direction than in the other


class TellableChange(Protocol):
    """What can be told of a change."""

    @property
    def kind(self) -> str | None: ...
    @property
    def before(self) -> Corners | None: ...
    @property
    def after(self) -> Corners | None: ...
    @property
    def thing(self) -> Name: ...
    @property
    def other(self) -> Name | None: ...
    @property
    def colour(self) -> str | None: ...


def told(changes: Sequence[TellableChange], size: tuple[int, int]) -> str:
    """All changes of an image of `size` in one line."""
    if not changes:
        return "most of the picture has changed"
    return "; ".join(dict.fromkeys(_sentence(each, size) for each in changes))


def _sentence(change: TellableChange, size: tuple[int, int]) -> str:
    before, after = _place(change.before, size), _place(change.after, size)
    if change.kind is None:
        return fill(f"the {THING} {before or after} has changed", change.thing)
    frame = stated(change.kind, before=before, after=after, way=_way(change), colour=change.colour)
    return fill(frame, change.thing, change.other, with_colour=change.kind != "color")


def _place(box: Corners | None, size: tuple[int, int]) -> str | None:
    if box is None:
        return None
    left, top, right, bottom = (round(float(each)) for each in box * np.array(size * 2))
    return place((left, top, right - left, bottom - top), size)


def _way(change: TellableChange) -> str | None:
    """The direction of a move that is clearly one."""
    if change.before is None or change.after is None:
        return None
    across, down = (change.after[:2] + change.after[2:] - change.before[:2] - change.before[2:]) / 2
    if max(abs(across), abs(down)) < _NOTICED:
        return None
    if abs(across) >= abs(down):
        return DIRECTIONS[int(across > 0)] if abs(across) >= _CLEAR * abs(down) or abs(across) > 2 * _NOTICED else None
    return DIRECTIONS[2 + int(down > 0)]
