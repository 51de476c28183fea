"""A trained captioning model as an answerer: one pass over a batch, then a verdict per pair."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spotchange.answering.calibration import Calibration, Familiarity
from spotchange.answering.ignore import without_heat, without_ignored
from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Heat
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import answer_from_pixels, answer_identical
from spotchange.answering.regions import boxes_of
from spotchange.answering.runtimes.interface import Encoded, Floats, ModelRuntime
from spotchange.errors import ModelError
from spotchange.language import change_type_of, says_no_change
from spotchange.models.interface import DecodingOptions
from spotchange.results import Alternative, CaptionResult, Region

Scores = npt.NDArray[np.float64]  # (pairs,)

HOT = 0.5  # heat of a patch that belongs to a region

UNFAMILIAR = (
    "these pictures are far from what the model was trained on; the answer compares their pixels and names no objects"
)
UNCALIBRATED = (
    "this model is not calibrated: it does not notice pictures it does not know (spotchange models calibrate)"
)
IN_DOUBT = "the model's own words disagreed with its change score; look at the pictures"


class ModelAnswerer:
    """A model with its calibration; pairs it is not familiar with are answered from their pixels."""

    def __init__(
        self,
        runtime: ModelRuntime,
        *,
        calibration: Calibration,
        familiarity: Familiarity | None,
        plausible: Callable[[ImagePair], bool] | None = None,
    ) -> None:
        self.runtime = runtime
        self._plausible = plausible  # a cheap look; what fails it never reaches the network
        self.calibration = calibration
        self.familiarity = familiarity
        # Words the tokenizer does not know cannot be generated anyway.
        ids = ((runtime.token_id(word), penalty) for word, penalty in calibration.word_penalties.items())
        self._word_penalties = tuple((id, penalty) for id, penalty in ids if id is not None)
        self._denying_words = denying_words(runtime.token_id)

    @property
    def card(self) -> AnswererCard:
        return self.runtime.card

    @property
    def workers(self) -> int:
        return self.runtime.workers

    def set_threads(self, count: int) -> None:
        self.runtime.set_threads(count)

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        """One answer per pair; identical pixels never reach the network."""
        started = time.perf_counter()
        masked = [without_ignored(pair, options.ignore) for pair in pairs]
        same = [pair.identical for pair in masked]
        strange = [
            not is_same and self._plausible is not None and not self._plausible(pair)
            for pair, is_same in zip(masked, same, strict=True)
        ]
        seen = [pair for pair, *known in zip(masked, same, strange, strict=True) if not any(known)]
        verdicts = iter(self._run(seen, options) if seen else [])
        answers = [
            answer_identical(pair) if is_same else _unfamiliar(pair, options, 0.0) if is_strange else next(verdicts)
            for pair, is_same, is_strange in zip(masked, same, strange, strict=True)
        ]
        seconds = round((time.perf_counter() - started) / max(1, len(pairs)), 4)
        name = self.card.name
        return [replace(each, result=replace(each.result, seconds=seconds, model=name)) for each in answers]

    def _run(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        encoded = self._encode(pairs)
        candidates = self.runtime.generate(encoded, _decoding(options, self._word_penalties))
        logits = encoded.change_logits
        scores = None if logits is None else self.calibration.change_scores(logits)
        denied = [] if scores is None else self._denied(candidates, scores, options)
        retold = dict(zip(denied, self._retell([pairs[place] for place in denied], options), strict=True))
        known = None if self.familiarity is None else self.familiarity.scores(encoded.features)
        return [
            self._verdict(
                pair,
                encoded,
                place,
                options=options,
                candidates=candidates[place],
                retold=retold.get(place, []),
                change_score=None if scores is None else float(scores[place]),
                familiarity=None if known is None else float(known[place]),
            )
            for place, pair in enumerate(pairs)
        ]

    def _encode(self, pairs: Sequence[ImagePair]) -> Encoded:
        encoded = self.runtime.encode([pair.before.pil for pair in pairs], [pair.after.pil for pair in pairs])
        decisive = [each for each in (encoded.features, encoded.change_logits) if each is not None]
        if not all(np.isfinite(each).all() for each in decisive):  # below any threshold, which reads as "no change"
            raise ModelError(f"{self.card.name} gives no finite numbers for these images", hint="are its files sound?")
        return encoded

    def _denied(self, candidates: list[list[Alternative]], scores: Scores, options: CaptionOptions) -> list[int]:
        """Places of pairs that the change head calls changed and every candidate calls unchanged."""
        changed = scores >= self._threshold(options)
        return [place for place, each in enumerate(candidates) if changed[place] and denies_wrongly(each)]

    def _retell(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[list[Alternative]]:
        """Candidates without the words that deny a change; so rare that the pairs are simply encoded again."""
        if not pairs:
            return []
        penalties = self._word_penalties + self._denying_words
        return self.runtime.generate(self._encode(pairs), _decoding(options, penalties))

    def _threshold(self, options: CaptionOptions) -> float:
        return self.calibration.threshold if options.threshold is None else options.threshold

    def _verdict(
        self,
        pair: ImagePair,
        encoded: Encoded,
        place: int,
        *,
        options: CaptionOptions,
        candidates: list[Alternative],
        retold: list[Alternative],
        change_score: float | None,
        familiarity: float | None,
    ) -> Answer:
        if familiarity is not None and familiarity < self.calibration.least_familiarity:
            return _unfamiliar(pair, options, familiarity)
        if change_score is None:
            # A model without a change head tells it in words.
            change_score = 0.0 if says_no_change(candidates[0].text) else 1.0
        changed = change_score >= self._threshold(options)
        best = in_agreement([*candidates, *retold], changed=changed)
        heat = without_heat(encoded.heat[place], pair.before.size, options.ignore)
        logits = None if encoded.change_logits is None else encoded.change_logits[place]
        result = CaptionResult(
            caption=best.text,
            changed=bool(changed),
            change_score=round(change_score, 4),
            change_type=self._change_type(changed, best.text, logits),
            alternatives=tuple(each for each in candidates if each.text != best.text),
            regions=_regions(heat, pair) if changed else (),
            familiarity=None if familiarity is None else round(familiarity, 4),
            warnings=((() if best in candidates else (IN_DOUBT,)) + (() if self.familiarity else (UNCALIBRATED,))),
        )
        return Answer(result=result, heat=heat, pair=pair)

    def _change_type(self, changed: bool, text: str, logits: Floats | None) -> str | None:
        if not changed:
            return "none"
        if logits is not None and len(logits) > 2:  # else the head tells change from none, and the sentence the kind
            return self.card.change_types[1 + int(np.argmax(logits[1:]))]
        return change_type_of(text)


def _unfamiliar(pair: ImagePair, options: CaptionOptions, familiarity: float) -> Answer:
    """What the pixels tell of images that the model does not know."""
    answer = answer_from_pixels(pair, options)
    result = replace(answer.result, familiarity=round(familiarity, 4), warnings=(UNFAMILIAR,))
    return replace(answer, result=result)


def _decoding(options: CaptionOptions, word_penalties: tuple[tuple[int, float], ...]) -> DecodingOptions:
    return DecodingOptions(
        method="beam" if options.beams > 1 else "greedy",
        beams=options.beams,
        candidates=options.beams,
        max_words=options.max_words,
        word_penalties=word_penalties,
    )


def _regions(heat: Heat, pair: ImagePair) -> tuple[Region, ...]:
    """Boxes round the hot patches of both images; a change with no hot patch is marked at its peak."""
    level = min(HOT, float(heat.max()))
    before = boxes_of(heat[0], heat[0] >= level, image="before", size=pair.before.size)
    after = boxes_of(heat[1], heat[1] >= level, image="after", size=pair.after.size)
    return (*before, *after)


NO_CHANGE = "there is no change"
SOME_CHANGE = "something has changed"  # for a model that cannot name a change even without the words of denial

# Sentences about a change can do without every one of these: "is no longer there" has three other forms.
_DENYING_WORDS = (
    "no nothing not none never there change difference differences same identical similar unchanged scene scenes "
    "image images two remains remain seem modified made occurred"
)
_NEVER_SAID = 1e4  # taken off a word's log-probability


def denies_wrongly(candidates: Sequence[Alternative]) -> bool:
    """Whether every candidate says that nothing changed."""
    return all(says_no_change(each.text) for each in candidates)


def denying_words(token_id: Callable[[str], int | None]) -> tuple[tuple[int, float], ...]:
    """Penalties that keep a search from denying a change; tokens carry CLIP's mark of a word's end."""
    ids = (token_id(form) for word in _DENYING_WORDS.split() for form in (word, f"{word}</w>"))
    return tuple((id, _NEVER_SAID) for id in ids if id is not None)


def in_agreement(candidates: Sequence[Alternative], *, changed: bool) -> Alternative:
    """The best candidate that says what the verdict says; where there is none, a plain sentence that does."""
    for each in candidates:
        if says_no_change(each.text) != changed:
            return each
    return Alternative(text=SOME_CHANGE if changed else NO_CHANGE, score=min(each.score for each in candidates))
