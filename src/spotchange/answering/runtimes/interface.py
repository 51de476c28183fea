"""What runs a captioning model's network: torch today, anything that gives the same arrays tomorrow.

`ModelAnswerer` turns these arrays into verdicts, so that both are independent of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.interface import AnswererCard
from spotchange.models.interface import DecodingOptions
from spotchange.results import Alternative

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What the network made of a batch of N pairs."""

    change_logits: Floats | None  # (N, change types), "none" first; None: the model has no such head
    heat: Floats  # (N, 2, rows, columns) in [0, 1]
    features: Floats  # (N, width)
    state: Any  # the runtime's own, for its `generate`


class ModelRuntime(Protocol):
    """A loaded captioning model with its preprocessing and tokenizer."""

    @property
    def card(self) -> AnswererCard: ...

    @property
    def workers(self) -> int: ...

    def set_threads(self, count: int) -> None: ...

    def token_id(self, word: str) -> int | None:
        """The id of a word the tokenizer knows."""
        ...

    def encode(self, before: Sequence[Image.Image], after: Sequence[Image.Image]) -> Encoded:
        """Run the image side once."""
        ...

    def generate(self, encoded: Encoded, options: DecodingOptions) -> list[list[Alternative]]:
        """Captions per pair, best first, with their mean log-probability per token."""
        ...


class NamingRuntime(ModelRuntime, Protocol):
    """A runtime whose model also names single things."""

    def name_windows(self, windows: Sequence[Image.Image]) -> tuple[Floats, Floats]:
        """Scores of nouns (windows, nouns) and of colours (windows, colours) for images of single things."""
        ...


class RankingRuntime(ModelRuntime, Protocol):
    """A runtime whose model also embeds pairs and texts in one space."""

    def embed_pairs(self, before: Sequence[Image.Image], after: Sequence[Image.Image]) -> Floats:
        """(pairs, width), unit length."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        """(texts, width), unit length; what is too long for the model is cut."""
        ...

    def unread(self, texts: Sequence[str]) -> tuple[list[str], int]:
        """Words that the model takes for unknown ones, each once, and how many of the texts are cut."""
        ...


def alternatives(
    ids: npt.NDArray[np.int64],
    log_probabilities: Floats,
    lengths: npt.NDArray[np.int64],
    decode: Callable[[Sequence[int]], str],
) -> list[list[Alternative]]:
    """Generated sentences (N, candidates, words) as texts with their mean log-probability per token."""
    means = log_probabilities.sum(axis=-1) / np.maximum(lengths, 1)
    return [
        [
            Alternative(text=decode(words), score=round(float(mean), 4))
            for words, mean in zip(sentences, scores, strict=True)
        ]
        for sentences, scores in zip(ids.tolist(), means, strict=True)
    ]
