"""Prompts as files: what a model is asked, in which version, and how its reply is read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from spotchange.config.base import Settings
from spotchange.errors import InputError, ReplyError

PROMPTS = Path(__file__).parent / "prompts"
_FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL)
LONGEST_CAPTION = 2_000  # characters; a model that does not stop has not answered


class Prompt(Settings):
    """One prompt file."""

    name: str
    version: int = Field(ge=1)
    """Raised with every change of the words: it stands in the signature of every number."""
    system: str
    user: str
    """Asked with both images."""
    hints: str = ""
    """Added where the comparison's findings are given; holds {findings}."""
    score_question: str = ""
    """Answered with yes or no, for a change score from token probabilities."""
    schema_: dict[str, Any] = Field(alias="schema")
    """JSON schema of the reply."""

    @property
    def signature(self) -> str:
        """How numbers name it."""
        return f"{self.name}.v{self.version}"

    def question(self, findings: Sequence[str] | None) -> str:
        """The user's turn, with hints where they are wanted."""
        if findings is None or not self.hints:
            return self.user
        return f"{self.user} {self.hints.format(findings='; '.join(findings) or 'no differing pixels')}"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's reply, read strictly."""

    changed: bool
    caption: str
    differences: tuple[str, ...] = ()


def load_prompt(name: str) -> Prompt:
    """A prompt of the package by name, or any file."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else PROMPTS / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in PROMPTS.glob("*.yaml")))
        raise InputError(f"no prompt {name!r}", hint=f"one of {known}, or a file")
    return Prompt.from_yaml(path)


def parse_reply(text: str, prompt: Prompt) -> Reply:
    """Read a reply by the prompt's schema; anything else is an error, never a guess.

    Raises:
        ReplyError: says what is wrong with the reply.
    """
    stripped = text.strip()
    fenced = _FENCE.match(stripped)
    try:
        values = json.loads(fenced.group(1) if fenced else stripped)
    except (ValueError, RecursionError):
        raise ReplyError(f"the model's reply is not JSON: {_shown(text)}") from None
    properties: dict[str, Any] = prompt.schema_["properties"]
    if not isinstance(values, dict) or set(values) != set(prompt.schema_["required"]):
        raise ReplyError(f"the model's reply has other keys than {', '.join(properties)}: {_shown(text)}")
    caption, changed, differences = values["caption"], values["changed"], values.get("differences", [])
    if not isinstance(changed, bool):
        raise ReplyError(f"'changed' in the model's reply is neither true nor false: {_shown(text)}")
    if not isinstance(caption, str) or not caption.strip() or len(caption) > LONGEST_CAPTION:
        raise ReplyError(f"'caption' in the model's reply is no sentence: {_shown(text)}")
    if not isinstance(differences, list) or not all(isinstance(each, str) and each.strip() for each in differences):
        raise ReplyError(f"'differences' in the model's reply is no list of sentences: {_shown(text)}")
    if "differences" in properties and changed != bool(differences):
        raise ReplyError(f"the model's reply contradicts itself about a change: {_shown(text)}")
    return Reply(
        changed=changed, caption=" ".join(caption.split()), differences=tuple(" ".join(d.split()) for d in differences)
    )


def _shown(text: str, most: int = 120) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= most else f"{line[:most]}...")
