"""The seam for everything that answers: pairs of images in, results with heat and regions out.

A model of ours on torch or onnxruntime, the pixel comparison, a vision-language model: whoever meets `Answerer` works
in `caption`, `compare`, `serve` and `evaluate`. No torch type appears here. `build.py` holds the table of answerers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, kw_only=True, repr=False)
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

    def __repr__(self) -> str:
        return f"<Answer {self.result!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: both images with heat and boxes, and the sentence."""
        from spotchange.answering.notebook import image_html

        result = replace(self.result)
        sides = zip(("before", "after"), (self.before, self.after), self.heat, strict=True)
        figures = [
            image_html(side, image, [each for each in result.regions if each.image == side], heat)
            for side, image, heat in sides
        ]
        result.show_images_with(lambda: "".join(figures))
        return result._repr_html_()

    def figure(self) -> Image.Image:
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
    at_once: int = 1  # batches it takes beside each other: more than one where another machine computes them


Outcome = Answer | SpotchangeError


class Told(Protocol):
    """A reply that says what it took."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def reply_tokens(self) -> int: ...


ASKED = ("vlm", "openai")
"""Kinds of models that are asked: they take options, and what asking them took is counted."""
COUNTS = ("asked", "cached", "failed", "unusable", "prompt_tokens", "reply_tokens")


@dataclass(kw_only=True)
class Usage:
    """What asking a model took; counted by answerers that ask one, printed by every verb."""

    prices: tuple[float, float] | None = None  # of a million tokens told and written
    asked: int = 0
    cached: int = 0
    failed: int = 0  # questions without a reply
    unusable: int = 0  # replies that could not be read
    prompt_tokens: int = 0
    reply_tokens: int = 0

    def count(self, reply: Told | SpotchangeError) -> None:
        """Add a question that was asked, and what its reply took."""
        self.asked += 1
        if isinstance(reply, SpotchangeError):
            self.failed += 1
        else:
            self.prompt_tokens += reply.prompt_tokens
            self.reply_tokens += reply.reply_tokens

    def since(self, earlier: Usage) -> dict[str, int]:
        """What was counted after `earlier`."""
        return {name: getattr(self, name) - getattr(earlier, name) for name in COUNTS}

    def add(self, counts: Mapping[str, int]) -> None:
        """Add what was counted elsewhere."""
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def cost(self) -> float | None:
        """In the currency of the prices; None where none are known."""
        if self.prices is None:
            return None
        return (self.prompt_tokens * self.prices[0] + self.reply_tokens * self.prices[1]) / 1e6

    def __str__(self) -> str:
        parts = [f"{self.asked} questions asked, {self.cached} answered before"]
        parts += [f"{self.failed} without a reply"] if self.failed else []
        parts += [f"{self.unusable} unusable"] if self.unusable else []
        parts += [f"{self.prompt_tokens:,} tokens in, {self.reply_tokens:,} out"]
        parts += [f"cost {self.cost:.4g}"] if self.cost is not None else []
        return "; ".join(parts)


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
