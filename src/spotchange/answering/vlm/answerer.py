"""A vision-language model as an answerer: it words the change, the exact comparison gives regions and heat."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spotchange.answering.calibration import Calibration
from spotchange.answering.ignore import without_ignored
from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Outcome, Usage
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import answer_from_pixels, answer_identical
from spotchange.answering.vlm.asking import Question, RawReply, Turn, fingerprint
from spotchange.answering.vlm.cache import Asker
from spotchange.answering.vlm.replies import Reply, parse_reply
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.config.prompts import Prompt
from spotchange.errors import ReplyError, SpotchangeError

log = logging.getLogger(__name__)
DISAGREES = "the model's sentence and its yes-or-no answer disagree; look at the pictures"
UNSEEN = "the model saw no change here, the pixels differ; look at the pictures"
NO_PROBABILITY = "the model tells no probabilities: the change score is its own yes or no"
_CERTAIN = 1e-6  # probabilities nearer to 0 or 1 than this are taken for it


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A solved pair of a train split."""

    pair: ImagePair
    changed: bool
    reply: str  # in the form the prompt asks for


class VlmAnswerer:
    """Asks a model about every pair, once: replies are cached, unusable ones are errors."""

    workers = 1

    def __init__(
        self,
        asker: Asker,
        prompt: Prompt,
        settings: VlmSettings,
        *,
        shots: Sequence[Shot] = (),
        calibration: Calibration | None = None,
    ) -> None:
        self.asker = asker
        self.prompt = prompt
        self._settings = settings
        self._shots = tuple(shots)
        self._calibration = calibration

    @property
    def card(self) -> AnswererCard:
        model, kind = self.asker.model, f"vision-language model, prompt {self.prompt.signature}"
        at_once = self._settings.concurrency if model.device == "remote" else 1
        return AnswererCard(name=model.name, architecture=kind, device=model.device, at_once=at_once)

    @property
    def usage(self) -> Usage:
        """What was asked so far, and what it took."""
        return self.asker.usage

    @property
    def asked_as(self) -> str:
        """What a change score depends on: the model, the prompt by name and version, what is told beside it."""
        parts = [f"{self.asker.model.signature}+prompt.{self.prompt.signature}"]
        parts += ["hints"] if self._settings.hints else []
        if self._shots:
            told = [[shot.reply, fingerprint(shot.pair.before), fingerprint(shot.pair.after)] for shot in self._shots]
            digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:8]
            parts.append(f"{len(self._shots)}shots@{digest}")
        return "+".join(parts)

    @property
    def signature(self) -> str:
        """What every answer depends on."""
        if self._calibration is not None:
            fitted = self._calibration
            return f"{self.asked_as}+score.{fitted.temperature}.{fitted.bias}.{fitted.threshold}"
        return self.asked_as + ("+score" if self._settings.score else "")

    def set_threads(self, count: int) -> None:
        """The model or its server decides."""

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Outcome]:
        """One outcome per pair; identical pixels are answered without asking, ignored ones are not shown."""
        started = time.perf_counter()
        shown = [without_ignored(pair, options.ignore) for pair in pairs]
        seen = [answer_identical(pair) if pair.identical else answer_from_pixels(pair, options) for pair in pairs]
        open_places = [place for place, pair in enumerate(shown) if not pair.identical]
        questions = [self._question(shown[place], seen[place]) for place in open_places]
        replies = self.asker.ask(questions, lambda _, reply: parse_reply(reply, self.prompt))
        scored = [place for place, reply in zip(open_places, replies, strict=True) if isinstance(reply, Reply)]
        scores = dict(zip(scored, self._scores([shown[place] for place in scored]), strict=True))
        seconds = round((time.perf_counter() - started) / max(1, len(pairs)), 4)
        outcomes: list[Outcome] = list(seen)
        for place, reply in zip(open_places, replies, strict=True):
            outcomes[place] = (
                reply
                if isinstance(reply, SpotchangeError)
                else self._worded(seen[place], reply, scores[place], options, seconds)
            )
        log.info("%s: %s", self.asker.model.name, self.usage)
        return outcomes

    def yes_probabilities(self, pairs: Sequence[ImagePair]) -> list[float | SpotchangeError]:
        """P(changed) by the prompt's score question, as the model tells it; an error where it tells none."""
        if not self.prompt.score_question:
            raise ReplyError(f"prompt {self.prompt.signature} has no score_question")
        questions = [self._score_question(pair) for pair in pairs]
        return self.asker.ask(questions, _probability)

    def _question(self, pair: ImagePair, seen: Answer) -> Question:
        findings = None
        if self._settings.hints:
            findings = tuple(
                f"{each.sentence} (before {list(each.boxes_before)}, after {list(each.boxes_after)})"
                for each in seen.result.findings
            ) or (seen.result.caption,)
        plain = self.prompt.question(None)
        return Question(
            prompt=self.prompt.signature,
            system=self.prompt.system,
            turn=self._turn(pair, self.prompt.question(findings)),
            examples=tuple(self._turn(shot.pair, plain, reply=shot.reply) for shot in self._shots),
            schema=self.prompt.schema_ or None,
        )

    def _turn(self, pair: ImagePair, text: str, *, reply: str | None = None) -> Turn:
        return Turn(pair=pair, text=text, stacked=self.prompt.images == "stacked", reply=reply)

    def _score_question(self, pair: ImagePair) -> Question:
        text = self.prompt.score_question
        examples = (self._turn(shot.pair, text, reply="yes" if shot.changed else "no") for shot in self._shots)
        return Question(
            prompt=self.prompt.signature,
            system=self.prompt.system,
            turn=self._turn(pair, text),
            examples=tuple(examples),
            yes_or_no=True,
        )

    def _scores(self, pairs: Sequence[ImagePair]) -> list[float | None]:
        """The change score of each pair where it is wanted and the model tells probabilities."""
        if not (self._settings.score or self._calibration):
            return [None] * len(pairs)
        found = self.yes_probabilities(pairs)
        return [None if isinstance(each, SpotchangeError) else self._calibrated(each) for each in found]

    def _calibrated(self, probability: float) -> float:
        if self._calibration is None:
            return probability
        return float(self._calibration.change_scores(yes_logits([probability]))[0])

    def _worded(
        self, seen: Answer, reply: Reply, score: float | None, options: CaptionOptions, seconds: float
    ) -> Answer:
        change_score = score if score is not None else float(reply.changed)
        usual = 0.5 if self._calibration is None else self._calibration.threshold
        threshold = usual if options.threshold is None else options.threshold
        changed = change_score >= threshold if score is not None else reply.changed
        warnings = list(seen.result.warnings)
        if score is not None and changed != reply.changed:
            warnings.append(DISAGREES)
        elif score is None and (self._settings.score or self._calibration):
            warnings.append(NO_PROBABILITY)
        if seen.result.changed and not changed:
            warnings.append(UNSEEN)
        result = replace(
            seen.result,
            caption=reply.caption,
            changed=changed,
            change_score=round(change_score, 4),
            change_type=seen.result.change_type if changed else "none",
            differences=reply.differences,
            regions=seen.result.regions if changed else (),
            source="vlm",
            model=self.asker.model.name,
            warnings=tuple(warnings),
            seconds=seconds,
        )
        return replace(seen, result=result)


def yes_logits(probabilities: Sequence[float]) -> np.ndarray:
    """P(yes) as what a change head gives, (pairs, 2) logits with "none" first: calibration is the same for both."""
    clipped = [min(max(each, _CERTAIN), 1 - _CERTAIN) for each in probabilities]
    return np.array([[0.0, math.log(each / (1 - each))] for each in clipped])


def _probability(_: Question, reply: RawReply) -> float:
    if reply.yes_probability is None:
        raise ReplyError("the model tells no probabilities of yes and no")
    return reply.yes_probability
