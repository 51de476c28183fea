"""Captioner: two pictures in, a verdict, a sentence and regions out. The only inference path."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from spotchange.answering.calibration import Calibration, Familiarity
from spotchange.answering.ignore import without_heat, without_ignored
from spotchange.answering.pixels import compare_pixels, identical
from spotchange.answering.regions import boxes_of
from spotchange.drawing import side_by_side
from spotchange.errors import SpotchangeError
from spotchange.images import ImageSource, read_pair
from spotchange.language.checker import change_type_of, says_no_change
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import LoadedModel
from spotchange.results import Alternative, Box, CaptionResult, Region

Pair = tuple[ImageSource, ImageSource]
READERS = min(8, os.cpu_count() or 1)  # threads that decode pictures
HOT = 0.5  # heat of a patch that belongs to a region

FAR_FROM_HOME = (
    "these pictures are far from what the model was trained on; the answer compares their pixels and names no objects"
)
DISAGREE = "the sentence and the change score disagree; look at the pictures"


@dataclass(frozen=True, kw_only=True)
class CaptionOptions:
    """What a caller may choose for each pair."""

    beams: int = 3
    threshold: float | None = None  # None: the calibrated one
    ignore: tuple[Box, ...] = ()  # rectangles of the before picture, in its pixels
    max_words: int = 32


DEFAULTS = CaptionOptions()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A result together with the pictures and the heat it was read from."""

    result: CaptionResult
    heat: npt.NDArray[np.float32]  # (2, rows, columns) in [0, 1]
    before: Image.Image
    after: Image.Image

    def picture(self) -> Image.Image:
        """Both pictures side by side with what changed marked."""
        return side_by_side(
            self.before, self.after, heat=self.heat, regions=self.result.regions, caption=self.result.caption
        )


class Captioner:
    """A model with its preprocessing, words and calibration. Safe to use from several threads."""

    def __init__(self, loaded: LoadedModel, *, calibration: Calibration, familiarity: Familiarity | None) -> None:
        self.loaded = loaded
        self.model: Any = loaded.model  # whatever offers `CaptioningModel`
        self.name = loaded.name
        self.calibration = calibration
        self.familiarity = familiarity
        # Words the tokenizer does not know cannot be said anyway.
        ids = ((loaded.tokenizer.token_to_id(word), taken) for word, taken in calibration.word_penalties.items())
        self._word_penalties = tuple((id, taken) for id, taken in ids if id is not None)

    def caption(self, before: ImageSource, after: ImageSource, *, options: CaptionOptions = DEFAULTS) -> CaptionResult:
        """Say what changed; pictures may be paths, bytes, PIL images or arrays."""
        return self.answer(before, after, options=options).result

    def answer(self, before: ImageSource, after: ImageSource, *, options: CaptionOptions = DEFAULTS) -> Answer:
        """The result with its heat map."""
        (answer,) = self.answer_pictures([read_pair(before, after)], options=options)
        return answer

    def caption_many(
        self, pairs: Iterable[Pair], *, options: CaptionOptions = DEFAULTS, batch_size: int = 16
    ) -> Iterator[CaptionResult]:
        """Results in order; the first bad picture raises."""
        for answer in self.answer_many(pairs, options=options, batch_size=batch_size):
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

        With `keep_errors` a pair that cannot be read gives its error instead of raising it.
        """
        source = iter(pairs)
        with ThreadPoolExecutor(max_workers=READERS) as readers:

            def read_ahead() -> list[Future[tuple[Image.Image, Image.Image]]]:
                return [readers.submit(read_pair, *pair) for pair in islice(source, batch_size)]

            ahead = read_ahead()
            while ahead:
                current, ahead = ahead, read_ahead()
                read = [_result_or_error(each, keep_errors) for each in current]
                good = [each for each in read if not isinstance(each, SpotchangeError)]
                answers = iter(self.answer_pictures(good, options=options))
                for each in read:
                    yield each if isinstance(each, SpotchangeError) else next(answers)

    def answer_pictures(
        self, pairs: Sequence[tuple[Image.Image, Image.Image]], *, options: CaptionOptions = DEFAULTS
    ) -> list[Answer]:
        """Answers to pairs that are already read, as one batch."""
        started = time.perf_counter()
        pairs = [(before, without_ignored(before, after, options.ignore)) for before, after in pairs]
        same = [identical(before, after) for before, after in pairs]
        shown = [pair for pair, is_same in zip(pairs, same, strict=True) if not is_same]
        seen = iter(self._look(shown, options) if shown else [])
        answers = [
            self._answer_identical(*pair) if is_same else next(seen) for pair, is_same in zip(pairs, same, strict=True)
        ]
        seconds = round((time.perf_counter() - started) / max(1, len(pairs)), 4)
        return [replace(each, result=replace(each.result, seconds=seconds, model=self.name)) for each in answers]

    def _look(self, pairs: Sequence[tuple[Image.Image, Image.Image]], options: CaptionOptions) -> list[Answer]:
        """One pass of the model over a batch, then a verdict a pair."""
        loaded = self.loaded
        with torch.inference_mode():
            before = loaded.preprocess([pair[0] for pair in pairs])
            after = loaded.preprocess([pair[1] for pair in pairs])
            state = self.model.encode(before, after)
            logits = self.model.change_logits(state)
            decoding = DecodingOptions(
                method="beam" if options.beams > 1 else "greedy",
                beams=options.beams,
                candidates=options.beams,
                max_words=options.max_words,
                word_penalties=self._word_penalties,
            )
            generated = self.model.generate(state, decoding)
            heat = self.model.heatmap(state).float().cpu().numpy()
            features = state.features.float().cpu().numpy()
        lengths = generated.lengths.clamp(min=1)
        means = (generated.log_probabilities.sum(dim=-1) / lengths).float().cpu().numpy()
        candidates = [
            [
                Alternative(text=loaded.decode(ids), score=round(float(mean), 4))
                for ids, mean in zip(sentences, scores, strict=True)
            ]
            for sentences, scores in zip(generated.ids.tolist(), means, strict=True)
        ]
        raw = None if logits is None else logits.float().cpu().numpy()
        scores = None if raw is None else self.calibration.change_scores(raw)
        known = None if self.familiarity is None else self.familiarity.scores(features)
        return [
            self._judge(
                pair,
                options=options,
                candidates=candidates[i],
                change_score=None if scores is None else float(scores[i]),
                change_logits=None if raw is None else raw[i],
                heat=heat[i],
                familiarity=None if known is None else float(known[i]),
            )
            for i, pair in enumerate(pairs)
        ]

    def _judge(
        self,
        pair: tuple[Image.Image, Image.Image],
        *,
        options: CaptionOptions,
        candidates: list[Alternative],
        change_score: float | None,
        change_logits: npt.NDArray[np.float32] | None,
        heat: npt.NDArray[np.float32],
        familiarity: float | None,
    ) -> Answer:
        if familiarity is not None and familiarity < self.calibration.least_familiarity:
            return self._answer_from_pixels(*pair, options=options, familiarity=familiarity)
        warnings: list[str] = []
        if change_score is None:
            # A model without a change head says it in words.
            change_score = 0.0 if says_no_change(candidates[0].text) else 1.0
        threshold = self.calibration.threshold if options.threshold is None else options.threshold
        changed = change_score >= threshold
        agreeing = [each for each in candidates if says_no_change(each.text) != changed]
        if not agreeing:
            warnings.append(DISAGREE)
        best = (agreeing or candidates)[0]
        heat = without_heat(heat, pair[0].size, options.ignore)
        result = CaptionResult(
            caption=best.text,
            changed=bool(changed),
            change_score=round(change_score, 4),
            change_type=self._change_type(changed, best.text, change_logits),
            alternatives=tuple(each for each in candidates if each.text != best.text),
            regions=_regions(heat, pair) if changed else (),
            familiarity=None if familiarity is None else round(familiarity, 4),
            warnings=tuple(warnings),
        )
        return Answer(result=result, heat=heat, before=pair[0], after=pair[1])

    def _change_type(self, changed: bool, text: str, logits: npt.NDArray[np.float32] | None) -> str | None:
        if not changed:
            return "none"
        if logits is not None and len(logits) > 2:  # else the head tells change from none, and the sentence the kind
            return self.loaded.change_types[1 + int(np.argmax(logits[1:]))]
        return change_type_of(text)

    def _answer_from_pixels(
        self, before: Image.Image, after: Image.Image, *, options: CaptionOptions, familiarity: float
    ) -> Answer:
        difference = compare_pixels(before, after, ignore=options.ignore)
        changed = difference.changed if options.threshold is None else difference.score >= options.threshold
        result = CaptionResult(
            caption=difference.sentence,
            changed=changed,
            change_score=difference.score,
            change_type=None if changed else "none",
            regions=difference.regions,
            familiarity=round(familiarity, 4),
            source="pixels",
            warnings=(FAR_FROM_HOME,),
        )
        return Answer(result=result, heat=np.stack([difference.heat] * 2), before=before, after=after)

    def _answer_identical(self, before: Image.Image, after: Image.Image) -> Answer:
        result = CaptionResult(
            caption="the two pictures are identical",
            changed=False,
            change_score=0.0,
            change_type="none",
            source="pixels",
        )
        return Answer(result=result, heat=np.zeros((2, 1, 1), np.float32), before=before, after=after)


def _result_or_error(
    reading: Future[tuple[Image.Image, Image.Image]], keep_errors: bool
) -> tuple[Image.Image, Image.Image] | SpotchangeError:
    try:
        return reading.result()
    except SpotchangeError as error:
        if keep_errors:
            return error
        raise


def _regions(heat: npt.NDArray[np.float32], pair: tuple[Image.Image, Image.Image]) -> tuple[Region, ...]:
    """Boxes round the hot patches of both pictures; a change with no hot patch is marked at its peak."""
    level = min(HOT, float(heat.max()))
    before = boxes_of(heat[0], heat[0] >= level, image="before", size=pair[0].size)
    after = boxes_of(heat[1], heat[1] >= level, image="after", size=pair[1].size)
    return (*before, *after)
