"""What is asked and what comes back, whichever model answers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spotchange.answering.pair import ImagePair, LazyImage
from spotchange.answering.vlm.prompt import Prompt
from spotchange.images import encode_image

SENT_AS_IS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg"}


@dataclass(frozen=True, kw_only=True)
class Example:
    """A solved pair, shown before the question."""

    pair: ImagePair
    reply: str  # in the form the prompt asks for


@dataclass(frozen=True, kw_only=True)
class Question:
    """One pair with everything a model is told about it."""

    pair: ImagePair
    prompt: Prompt
    findings: tuple[str, ...] | None = None  # of the comparison, where hints are wanted
    examples: tuple[Example, ...] = ()
    yes_or_no: bool = False  # ask the prompt's score question instead

    @property
    def text(self) -> str:
        """The user's turn."""
        return self.prompt.score_question if self.yes_or_no else self.prompt.question(self.findings)

    def key(self, model: str, extra: str) -> str:
        """What a cached reply is found by: model and its settings, prompt, images, examples."""
        digest = hashlib.sha256()
        parts = [model, extra, self.prompt.signature, self.prompt.system, self.text]
        parts += [fingerprint(image) for pair in self.pairs for image in (pair.before, pair.after)]
        parts += [example.reply for example in self.examples]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part.encode())
        return digest.hexdigest()

    @property
    def pairs(self) -> list[ImagePair]:
        """The examples' pairs, then the one in question."""
        return [*(example.pair for example in self.examples), self.pair]


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """What a model wrote, and what it cost."""

    text: str
    prompt_tokens: int = 0
    reply_tokens: int = 0
    yes_probability: float | None = None  # only for yes-or-no questions


class Asked(Protocol):
    """A vision-language model: local or behind a server."""

    name: str

    @property
    def signature(self) -> str:
        """Model, revision and generation settings: all that a reply depends on besides the question."""
        ...

    def ask(self, questions: Sequence[Question]) -> list[RawReply | Exception]:
        """One outcome per question, in order; a question that failed gives its `ReplyError`."""
        ...


def fingerprint(image: LazyImage) -> str:
    """Of the file as given, else of its pixels."""
    content = image.encoded
    if content is None:
        content = repr(image.size).encode() + image.pil.tobytes()
    return hashlib.sha256(content).hexdigest()


def data_url(image: LazyImage, image_format: str) -> str:
    """The image for a request: the original bytes where every server reads them, else encoded anew."""
    content = image.encoded
    kind = next((name for mark, name in SENT_AS_IS.items() if content is not None and content.startswith(mark)), None)
    if kind is None or content is None:
        kind, content = image_format, encode_image(image.pil, image_format)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
