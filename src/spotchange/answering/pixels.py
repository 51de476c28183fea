"""The pixel comparison as an answerer: which regions differ, and how much, without knowing what is shown."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spotchange.answering.coarse_pixels import compare_pixels
from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions
from spotchange.answering.pair import ImagePair
from spotchange.results import CaptionResult


class PixelAnswerer:
    """Answers any pair from its pixels alone."""

    card = AnswererCard(name="pixels", architecture="pixel comparison")
    workers = os.cpu_count() or 1

    def set_threads(self, count: int) -> None:
        """One comparison runs on one thread anyway."""

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        """One answer per pair."""
        return [self._answer(pair, options) for pair in pairs]

    def _answer(self, pair: ImagePair, options: CaptionOptions) -> Answer:
        started = time.perf_counter()
        answer = answer_identical(pair) if pair.identical else answer_from_pixels(pair, options)
        seconds = round(time.perf_counter() - started, 4)
        return replace(answer, result=replace(answer.result, seconds=seconds, model=self.card.name))


def answer_identical(pair: ImagePair) -> Answer:
    """The answer to two images with the same pixels."""
    result = CaptionResult(
        caption="the two pictures are identical",
        changed=False,
        change_score=0.0,
        change_type="none",
        source="pixels",
    )
    return Answer(result=result, heat=np.zeros((2, 1, 1), np.float32), pair=pair)


def answer_from_pixels(pair: ImagePair, options: CaptionOptions) -> Answer:
    """What the pixels alone tell."""
    difference = compare_pixels(pair.before.pil, pair.after.pil, ignore=options.ignore)
    changed = difference.changed if options.threshold is None else difference.score >= options.threshold
    result = CaptionResult(
        caption=difference.sentence,
        changed=changed,
        change_score=difference.score,
        change_type=None if changed else "none",
        regions=difference.regions,
        source="pixels",
    )
    return Answer(result=result, heat=np.stack([difference.heat] * 2), pair=pair)
