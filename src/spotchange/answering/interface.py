"""The seam for everything that answers: pairs of images in, results with heat and regions out.

A model of ours on torch or onnxruntime, the pixel comparison, a vision-language model: whoever meets `Answerer` works
in `caption`, `compare`, `serve` and `evaluate`. No torch type appears here. `build.py` holds the table of answerers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.pair import ImagePair
from spotchange.drawing import side_by_side
from spotchange.errors import SpotchangeError
from spotchange.results import Box, CaptionResult

Heat = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class CaptionOptions:
    """What a caller may choose for each pair."""

    beams: int = 3
    threshold: float | None = None  # None: the calibrated one
    ignore: Sequence[Box] = ()  # rectangles of the before image, in its pixels
    max_words: int = 32

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore", tuple(tuple(box) for box in self.ignore))  # lists are as good


class OptionFields(TypedDict, total=False):
    """The fields of `CaptionOptions` as keywords."""

    beams: int
    threshold: float | None
    ignore: Sequence[Box]
    max_words: int


DEFAULTS = CaptionOptions()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A result together with the pair and the heat it was read from."""

    result: CaptionResult
    heat: Heat  # (2, rows, columns) in [0, 1]
    pair: ImagePair

    @property
    def before(self) -> Image.Image:
        return self.pair.before.pil

    @property
    def after(self) -> Image.Image:
        return self.pair.after.pil

    def picture(self) -> Image.Image:
        """Both images side by side with what changed marked."""
        return side_by_side(
            self.before, self.after, heat=self.heat, regions=self.result.regions, caption=self.result.caption
        )


@dataclass(frozen=True, kw_only=True)
class AnswererCard:
    """What an answerer says of itself, for `/v1/models` and for logs."""

    name: str
    architecture: str
    change_types: tuple[str, ...] = ()
    image_size: tuple[int, int] | None = None  # height, width it computes at; None: any
    device: str = "cpu"


Outcome = Answer | SpotchangeError


class Answerer(Protocol):
    """Answers pairs of images. Safe to call from several threads."""

    @property
    def card(self) -> AnswererCard:
        """Name and nature of what answers."""
        ...

    @property
    def workers(self) -> int:
        """Parts that a batch is worth splitting into, one thread each; 1 where a device takes a batch whole."""
        ...

    def set_threads(self, count: int) -> None:
        """How many CPU threads the calling thread's next answers may use."""
        ...

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> Sequence[Outcome]:
        """One outcome per pair, in order; the pairs are computed as one batch.

        A pair that cannot be answered gives its error in its place: nothing is invented, and no other pair suffers.
        """
        ...
