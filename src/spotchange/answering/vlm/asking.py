"""What is asked and what comes back, whichever model answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from spotchange.answering.pair import ImagePair, LazyImage
from spotchange.drawing import stacked
from spotchange.errors import SpotchangeError


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of the user: two images, or none, and a text; with the reply where it is an example."""

    text: str
    pair: ImagePair | None = None
    stacked: bool = False
    """Shown as one image, before above after."""
    reply: str | None = None

    @cached_property
    def images(self) -> tuple[LazyImage, ...]:
        """What is shown, before first."""
        if self.pair is None:
            return ()
        if not self.stacked:
            return (self.pair.before, self.pair.after)
        return (LazyImage(stacked(self.pair.before.pil, self.pair.after.pil)),)


@dataclass(frozen=True, kw_only=True)
class Question:
    """Everything a model is told: instructions, solved examples, and the turn that it answers."""

    prompt: str
    """Name and version of the prompt."""
    system: str
    turn: Turn
    examples: tuple[Turn, ...] = ()
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply."""
    yes_or_no: bool = False
    """Only the first word counts, and its probability is wanted."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The examples, then the question."""
        return (*self.examples, self.turn)

    def key(self, model: str) -> str:
        """What a cached reply is found by: the model with its settings, and all it is told and shown."""
        digest = hashlib.sha256()
        parts = [model, self.prompt, self.system, str(self.yes_or_no)]
        for turn in self.turns:
            parts += [turn.text, turn.reply or "", *(fingerprint(image) for image in turn.images)]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part.encode())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """What a model wrote, and what it cost."""

    text: str
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cut_off: bool = False
    """It had more to say than it was allowed to."""
    refusal: str = ""
    """Why it would not reply, or was kept from it; what it wrote is no reply then."""
    yes_probability: float | None = None
    """Of yes against no; only for yes-or-no questions, and only where the model tells probabilities."""


Arrived = Callable[[int, RawReply | SpotchangeError], None]
"""Told of an outcome: the place of its question, and the reply or why there is none."""


class Asked(Protocol):
    """A vision-language model: local or behind a server."""

    name: str
    device: str
    """Where it computes; "remote" behind a server."""
    sees: bool
    """False: a language model, which takes no images."""
    prompt_file: Path | None
    """What it was trained to be asked, where that is known."""

    @property
    def signature(self) -> str:
        """Model, revision and generation settings: all that a reply depends on besides the question."""
        ...

    def ask(self, questions: Sequence[Question], arrived: Arrived) -> None:
        """Tells `arrived` one outcome per question, each as it comes; a question that failed has its `ReplyError`."""
        ...


def fingerprint(image: LazyImage) -> str:
    """Of the file as given, else of its pixels."""
    content = image.encoded
    if content is None:
        content = repr(image.size).encode() + image.pil.tobytes()
    return hashlib.sha256(content).hexdigest()
