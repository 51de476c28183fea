"""Asks a model which of a pair's true differences a caption states; a reply that cannot be used is an error row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spotchange.answering.interface import Usage
from spotchange.answering.vlm.asking import Question, RawReply, Turn
from spotchange.answering.vlm.build import build_asker
from spotchange.answering.vlm.cache import Asker
from spotchange.answering.vlm.replies import reply_values, shown
from spotchange.answering.vlm.settings import read_options
from spotchange.config.prompts import PROMPTS, PromptFile, read_prompt
from spotchange.data import Row
from spotchange.errors import InputError, ReplyError, SpotchangeError
from spotchange.evaluation.judging.differences import differences_of
from spotchange.evaluation.predictions import Output

PROMPT = "matching"
MOST_CLAIMS = 100  # of a caption; a judge that finds more has not judged
DEFAULTS = {"max_new_tokens": "800"}


@dataclass(frozen=True, kw_only=True)
class Matched:
    """What became of one caption: its claims, and which of the true differences each of them states."""

    differences: tuple[str, ...]
    claims: tuple[tuple[str, int], ...]  # a claim and the number of its difference from 1 on, 0 for an invented one
    answered: bool = True  # False: the system gave no caption to judge

    @property
    def found(self) -> int:
        """How many of the true differences the caption states."""
        return len({number for _, number in self.claims if number})

    @property
    def invented(self) -> int:
        """How many differences it makes up."""
        return sum(number == 0 for _, number in self.claims)

    @property
    def right(self) -> bool:
        """It states what is true and nothing else: at least one difference, or none where there are none."""
        return self.answered and not self.invented and bool(self.claims) == bool(self.differences)


class Judge:
    """A model with its prompt; text only, so that a language model judges as well as a vision-language model."""

    def __init__(self, asker: Asker, prompt: PromptFile) -> None:
        if "{caption}" not in prompt.user or "{differences}" not in prompt.user:
            raise InputError(f"prompt {prompt.signature} of a judge must hold {{caption}} and {{differences}}")
        prompt.check_schema({"claims"})
        self._asker = asker
        self._prompt = prompt

    @classmethod
    def load(cls, name: str, options: Mapping[str, str], *, device: str) -> Judge:
        """From `vlm:...` or `openai:...` and its settings; `prompt` is a prompt of judges."""
        settings = read_options({**DEFAULTS, **options})
        prompt = read_prompt(options.get("prompt", PROMPT), PROMPTS / "judging", PromptFile)
        return cls(build_asker(name, settings, device=device), prompt)

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self._asker.model.name

    @property
    def signature(self) -> str:
        """Model and prompt, by name and version."""
        return f"{self._asker.model.signature}+prompt.{self._prompt.signature}"

    @property
    def usage(self) -> Usage:
        """What judging took so far."""
        return self._asker.usage

    def match(self, rows: Sequence[Row], outputs: Sequence[Output]) -> list[Matched | SpotchangeError | None]:
        """One outcome per row: claims matched, why they could not be, or None where nobody knows the differences."""
        outcomes: list[Matched | SpotchangeError | None] = [None] * len(rows)
        asked: dict[int, Question] = {}
        lists: dict[str, tuple[str, ...]] = {}  # by the text of the question, which holds them
        for place, (row, output) in enumerate(zip(rows, outputs, strict=True)):
            known = differences_of(row)
            if known is not None and output.error is not None:
                outcomes[place] = Matched(differences=known.texts, claims=(), answered=False)
            elif known is not None:
                asked[place] = self._question(output, known.texts)
                lists[asked[place].turn.text] = known.texts
        replies = self._asker.ask(
            list(asked.values()), lambda question, reply: self._read(reply, lists[question.turn.text])
        )
        for place, reply in zip(asked, replies, strict=True):
            outcomes[place] = reply
        return outcomes

    def _question(self, output: Output, differences: Sequence[str]) -> Question:
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(differences, 1)) or "none"
        # Quoted, so that no caption can pass for a part of the instructions.
        caption = json.dumps("; ".join(output.differences) or output.caption, ensure_ascii=False)
        text = self._prompt.user.replace("{differences}", listed).replace("{caption}", caption)
        return Question(
            prompt=self._prompt.signature,
            system=self._prompt.system,
            turn=Turn(text=text),
            schema=self._prompt.schema_,
        )

    def _read(self, reply: RawReply, differences: tuple[str, ...]) -> Matched:
        claims = reply_values(reply, self._prompt.schema_)["claims"]
        if not isinstance(claims, list) or len(claims) > MOST_CLAIMS:
            raise ReplyError(f"'claims' in the judge's reply is no list of claims: {shown(reply.text)}")
        read = []
        for claim in claims:
            if not isinstance(claim, dict) or set(claim) != {"text", "difference"}:
                raise ReplyError(
                    f"a claim in the judge's reply has other keys than text, difference: {shown(reply.text)}"
                )
            text, number = claim["text"], claim["difference"]
            if not isinstance(text, str) or not text.strip():
                raise ReplyError(f"a claim in the judge's reply has no text: {shown(reply.text)}")
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= len(differences):
                raise ReplyError(f"a claim in the judge's reply names no difference of the list: {shown(reply.text)}")
            read.append((text, number))
        return Matched(differences=differences, claims=tuple(read))
