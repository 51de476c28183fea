"""Prompts as files: what a model is asked, in which version. Training, answering and judging read the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, PrivateAttr

from spotchange.config.base import Settings
from spotchange.errors import InputError

PROMPTS = Path(__file__).parents[1] / "prompts"


class PromptFile(Settings):
    """What every prompt file holds."""

    name: str
    version: int = Field(ge=1)
    """Raised with every change of the words: it stands in the signature of every number."""
    system: str
    user: str
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")
    """JSON schema of the reply; none: the reply is the sentence itself."""
    _digest: str = PrivateAttr(default="")  # of a file that is not the package's: words change without their version

    @property
    def signature(self) -> str:
        """How numbers name it."""
        return f"{self.name}.v{self.version}" + (f"@{self._digest}" if self._digest else "")

    def check_schema(self, needed: Set[str], optional: Set[str] = frozenset()) -> None:
        """Refuse a schema that requires other keys than those a reply is read by, or does not describe them."""
        required, properties = self.schema_.get("required"), self.schema_.get("properties")
        listed = isinstance(required, list) and all(isinstance(each, str) for each in required)
        keys = set(required or ()) if listed else set()
        described = isinstance(properties, dict) and properties.keys() == keys
        if not (described and needed <= keys <= needed | optional):
            may = f", and may {_quoted(optional)}" if optional else ""
            raise InputError(f"prompt {self.signature}: its schema must describe and require {_quoted(needed)}{may}")

    def to_yaml(self) -> str:
        """The file it came from, comments aside."""
        return yaml.safe_dump(self.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)


class Prompt(PromptFile):
    """A prompt about two images: `user` is asked with both of them."""

    images: Literal["two", "stacked"] = "two"
    """two: one after the other; stacked: one image with before above after, as BLIP2IDC shows a pair."""
    hints: str = ""
    """Added where the comparison's findings are given; holds {findings}."""
    score_question: str = ""
    """Answered with yes or no, for a change score from token probabilities."""

    def question(self, findings: Sequence[str] | None) -> str:
        """The user's turn, with hints where they are wanted."""
        if findings is None or not self.hints:
            return self.user
        return f"{self.user} {self.hints.replace('{findings}', '; '.join(findings) or 'no differing pixels')}"

    @property
    def lists_differences(self) -> bool:
        """Whether every difference is asked for."""
        return "differences" in self.schema_.get("properties", ())

    @property
    def converses(self) -> bool:
        """Whether asking it needs a chat template."""
        return bool(self.system) or self.images == "two"

    def reply(self, *, changed: bool, caption: str, differences: Sequence[str] = ()) -> str:
        """What a model ought to reply, in the form that is asked for."""
        if not self.schema_:
            return caption
        values: dict[str, Any] = {"changed": changed, "caption": caption}
        if self.lists_differences:
            values["differences"] = (list(differences) or [caption]) if changed else []
        return json.dumps(values)


AnyPrompt = TypeVar("AnyPrompt", bound=PromptFile)


def load_prompt(name: str) -> Prompt:
    """A prompt of the package by name, or any file."""
    prompt = read_prompt(name, PROMPTS, Prompt)
    if prompt.schema_:
        prompt.check_schema({"changed", "caption"}, {"differences"})
    return prompt


def read_prompt(name: str, folder: Path, kind: type[AnyPrompt]) -> AnyPrompt:
    """A prompt of `folder` by its name, or any file by its path."""
    if not name.endswith((".yaml", ".yml")):
        path = folder / f"{name}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(each.stem for each in folder.glob("*.yaml")))
            raise InputError(f"no prompt {name!r}", hint=f"one of {known}, or a file NAME.yaml")
        return kind.from_yaml(path)
    path = Path(name)
    if not path.is_file():
        raise InputError(f"no prompt file {name}")
    prompt = kind.from_yaml(path)
    prompt._digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    return prompt


def _quoted(names: Set[str]) -> str:
    return " and ".join(repr(each) for each in sorted(names))
