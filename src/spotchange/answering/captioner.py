"""Captioner: the public interface for Python. Two images in, a verdict, a sentence and regions out, whoever answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Literal, Unpack, overload

from spotchange.answering.interface import DEFAULTS, Answer, Answerer, CaptionOptions, OptionFields, Usage
from spotchange.answering.notebook import card_html, remember_images, with_progress
from spotchange.answering.pair import ImagePair
from spotchange.errors import SpotchangeError
from spotchange.image_sources import ImageSource
from spotchange.results import CaptionResult

Pair = tuple[ImageSource, ImageSource]
READERS = min(8, os.cpu_count() or 1)  # threads that decode images


class Captioner:
    """Whatever answers, with the convenience people want around it. Safe to use from several threads."""

    def __init__(self, answerer: Answerer) -> None:
        self.answerer = answerer

    @property
    def name(self) -> str:
        """The name of the model that answers."""
        return self.answerer.card.name

    @property
    def usage(self) -> Usage | None:
        """What asking the model took so far; None where nothing is asked."""
        return getattr(self.answerer, "usage", None)

    @property
    def asked_as(self) -> str | None:
        """All that the answers of a model depend on that is asked: its name, settings and prompt; None for others."""
        return getattr(self.answerer, "signature", None)

    def __repr__(self) -> str:
        card = self.answerer.card
        return f"<Captioner {card.name}: {card.architecture}, on {card.device}>"

    def _repr_html_(self) -> str:
        return card_html(self.answerer.card)

    def caption(
        self,
        before: ImageSource,
        after: ImageSource,
        *,
        options: CaptionOptions = DEFAULTS,
        **fields: Unpack[OptionFields],
    ) -> CaptionResult:
        """Say what changed.

        Images may be paths, data URLs, encoded bytes, file objects, Pillow images, numpy arrays or torch tensors; what
        arrays and tensors may look like is said in `spotchange.image_sources`. The result keeps what was given, so that
        a notebook can show it; those of `caption_many` do not.

        Any field of `CaptionOptions` may be given as a keyword: `caption(a, b, threshold=0.8, ignore=[(0, 0, 9, 9)])`.
        """
        answer = self.answer(before, after, options=replace(options, **fields))
        return remember_images(answer.result, answer.pair)

    def answer(self, before: ImageSource, after: ImageSource, *, options: CaptionOptions = DEFAULTS) -> Answer:
        """The result with its heat map."""
        (outcome,) = self.answerer.answer([ImagePair.of(before, after).load()], options)
        if isinstance(outcome, SpotchangeError):
            raise outcome
        return outcome

    def caption_many(
        self,
        pairs: Iterable[Pair],
        *,
        options: CaptionOptions = DEFAULTS,
        batch_size: int = 16,
        progress: bool | None = None,
    ) -> Iterator[CaptionResult]:
        """Results in order; the first bad image raises. `progress` shows a bar; None: in notebooks only."""
        total = len(pairs) if isinstance(pairs, Sized) else None
        answers = self.answer_many(pairs, options=options, batch_size=batch_size)
        for answer in with_progress(answers, total=total, wanted=progress):
            yield answer.result

    @overload
    def answer_many(
        self, pairs: Iterable[Pair], *, options: CaptionOptions = ..., batch_size: int = ...
    ) -> Iterator[Answer]: ...

    @overload
    def answer_many(
        self, pairs: Iterable[Pair], *, options: CaptionOptions = ..., batch_size: int = ..., keep_errors: Literal[True]
    ) -> Iterator[Answer | SpotchangeError]: ...

    def answer_many(
        self,
        pairs: Iterable[Pair],
        *,
        options: CaptionOptions = DEFAULTS,
        batch_size: int = 16,
        keep_errors: bool = False,
    ) -> Iterator[Answer | SpotchangeError]:
        """Answers in order; the next batch is decoded while this one is computed.

        With `keep_errors` a pair that cannot be read or answered gives its error instead of raising it.
        """
        source = iter(pairs)
        with ThreadPoolExecutor(max_workers=READERS) as readers:

            def read_ahead() -> list[Future[ImagePair]]:
                return [readers.submit(ImagePair.of(*pair).load) for pair in islice(source, batch_size)]

            ahead = read_ahead()
            while ahead:
                current, ahead = ahead, read_ahead()
                read = [_read_or_error(each) for each in current]
                good = [each for each in read if not isinstance(each, SpotchangeError)]
                outcomes = iter(self.answerer.answer(good, options) if good else [])
                for each in read:
                    outcome = each if isinstance(each, SpotchangeError) else next(outcomes)
                    if isinstance(outcome, SpotchangeError) and not keep_errors:
                        raise outcome
                    yield outcome


def _read_or_error(reading: Future[ImagePair]) -> ImagePair | SpotchangeError:
    try:
        return reading.result()
    except SpotchangeError as error:
        return error
