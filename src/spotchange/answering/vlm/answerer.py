"""A vision-language model as an answerer: it words the change, the exact comparison gives regions and heat."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Outcome
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import answer_from_pixels, answer_identical
from spotchange.answering.vlm.asking import Asked, Example, Question, RawReply
from spotchange.answering.vlm.cache import ReplyCache
from spotchange.answering.vlm.prompt import Prompt, Reply, parse_reply
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.errors import SpotchangeError
from spotchange.results import Alternative

log = logging.getLogger(__name__)


class VlmAnswerer:
    """Asks a model about every pair, once: replies are cached, unusable ones are errors."""

    workers = 1

    def __init__(
        self,
        model: Asked,
        prompt: Prompt,
        settings: VlmSettings,
        *,
        cache: ReplyCache | None,
        examples: Sequence[Example] = (),
    ) -> None:
        self.model = model
        self.prompt = prompt
        self._settings = settings
        self._cache = cache
        self._examples = tuple(examples)
        self._lock = threading.Lock()
        self.tokens = {"prompt": 0, "reply": 0, "asked": 0, "cached": 0}

    @property
    def card(self) -> AnswererCard:
        return AnswererCard(name=self.model.name, architecture=f"vision-language model, prompt {self.prompt.signature}")

    @property
    def signature(self) -> str:
        """What every answer depends on: the model and the prompt, by name and version."""
        return f"{self.model.signature}+prompt.{self.prompt.signature}"

    def set_threads(self, count: int) -> None:
        """The model or its server decides."""

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Outcome]:
        """One outcome per pair; identical pixels are answered without asking."""
        started = time.perf_counter()
        seen = [answer_identical(pair) if pair.identical else answer_from_pixels(pair, options) for pair in pairs]
        open_places = [place for place, answer in enumerate(seen) if not answer.result.identical]
        questions = [self._question(pairs[place], seen[place]) for place in open_places]
        replies = self._replies(questions)
        scores = self._scores(questions, replies)
        outcomes: list[Outcome] = list(seen)
        seconds = round((time.perf_counter() - started) / max(1, len(pairs)), 4)
        for place, reply, score in zip(open_places, replies, scores, strict=True):
            outcomes[place] = (
                reply
                if isinstance(reply, SpotchangeError)
                else self._worded(seen[place], reply, score, options, seconds)
            )
        log.info("asked %(asked)d, cached %(cached)d; tokens in %(prompt)d, out %(reply)d", self.tokens)
        return outcomes

    def _question(self, pair: ImagePair, seen: Answer) -> Question:
        findings = None
        if self._settings.hints:
            findings = tuple(
                f"{each.sentence} (before {list(each.boxes_before)}, after {list(each.boxes_after)})"
                for each in seen.result.findings
            ) or (seen.result.caption,)
        return Question(pair=pair, prompt=self.prompt, findings=findings, examples=self._examples)

    def _replies(self, questions: Sequence[Question]) -> list[Reply | SpotchangeError]:
        """Replies read strictly; only those that can be read are cached."""
        raw = self._ask(questions)
        read: list[Reply | SpotchangeError] = []
        for question, outcome in zip(questions, raw, strict=True):
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                reply = parse_reply(outcome.text, self.prompt)
            except SpotchangeError as error:
                read.append(error)
                continue
            if self._cache is not None:
                self._cache.put(self._key(question), outcome)
            read.append(reply)
        return read

    def _scores(self, questions: Sequence[Question], replies: Sequence[Reply | SpotchangeError]) -> list[float | None]:
        """P(yes) where it is wanted and the model tells probabilities."""
        scores: list[float | None] = [None] * len(questions)
        if not self._settings.score or not self.prompt.score_question:
            return scores
        places = [place for place, reply in enumerate(replies) if isinstance(reply, Reply)]
        asked = [replace(questions[place], yes_or_no=True) for place in places]
        for place, question, outcome in zip(places, asked, self._ask(asked), strict=True):
            if isinstance(outcome, RawReply):
                scores[place] = outcome.yes_probability
                if self._cache is not None:
                    self._cache.put(self._key(question), outcome)
        return scores

    def _ask(self, questions: Sequence[Question]) -> list[RawReply | Exception]:
        known = [self._cache.get(self._key(question)) if self._cache else None for question in questions]
        unknown = [question for question, reply in zip(questions, known, strict=True) if reply is None]
        fresh = iter(self.model.ask(unknown) if unknown else [])
        outcomes = [next(fresh) if reply is None else reply for reply in known]
        with self._lock:
            self.tokens["asked"] += len(unknown)
            self.tokens["cached"] += len(questions) - len(unknown)
            for reply, outcome in zip(known, outcomes, strict=True):
                if reply is None and isinstance(outcome, RawReply):
                    self.tokens["prompt"] += outcome.prompt_tokens
                    self.tokens["reply"] += outcome.reply_tokens
        return outcomes

    def _key(self, question: Question) -> str:
        return question.key(self.model.signature, "")

    def _worded(
        self, seen: Answer, reply: Reply, score: float | None, options: CaptionOptions, seconds: float
    ) -> Answer:
        change_score = score if score is not None else float(reply.changed)
        threshold = 0.5 if options.threshold is None else options.threshold
        changed = change_score >= threshold if score is not None else reply.changed
        warnings = seen.result.warnings
        if score is not None and changed != reply.changed:
            warnings = (*warnings, "the model's sentence and its yes-or-no answer disagree; look at the pictures")
        result = replace(
            seen.result,
            caption=reply.caption,
            changed=changed,
            change_score=round(change_score, 4),
            change_type=seen.result.change_type if changed else "none",
            alternatives=tuple(Alternative(text=each, score=0.0) for each in reply.differences),
            regions=seen.result.regions if changed else (),
            source="vlm",
            model=self.model.name,
            warnings=warnings,
            seconds=seconds,
        )
        return replace(seen, result=result)
