"""How a model's reply is read: strictly, by the schema of its prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spotchange.answering.vlm.asking import RawReply
from spotchange.config.prompts import Prompt
from spotchange.errors import ReplyError
from spotchange.language import says_no_change

LONGEST_CAPTION = 2_000  # characters; a model that does not stop has not answered
MOST_DIFFERENCES = 100
CUT_OFF = "the model's reply was cut off: max_new_tokens is too small"
_FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL)
_THOUGHTS = re.compile(r"^.*?</think>", re.DOTALL)  # before the answer; templates of some models open them themselves


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's reply, read strictly."""

    changed: bool
    caption: str
    differences: tuple[str, ...] = ()


def reply_values(reply: RawReply, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object in a reply, with exactly the keys that were asked for.

    Raises:
        ReplyError: says what is wrong with the reply.
    """
    said = _answer_in(reply)
    fenced = _FENCE.match(said)
    try:
        values = json.loads(fenced.group(1) if fenced else said, object_pairs_hook=_said_once)
    except (ValueError, RecursionError):
        raise ReplyError(f"the model's reply is not JSON: {shown(reply.text)}") from None
    except _SaidTwiceError as error:
        raise ReplyError(f"the model's reply says {error} twice: {shown(reply.text)}") from None
    if not isinstance(values, dict) or set(values) != set(schema["required"]):
        raise ReplyError(f"the model's reply has other keys than {', '.join(schema['required'])}: {shown(reply.text)}")
    return values


def _answer_in(reply: RawReply) -> str:
    """What a model said to its end, without its thoughts."""
    if reply.refusal:
        raise ReplyError(f"the model would not reply: {reply.refusal}")
    if reply.cut_off:
        raise ReplyError(CUT_OFF)
    return _THOUGHTS.sub("", reply.text).strip()


class _SaidTwiceError(Exception):
    """A key that stands twice in one object: either value might be meant."""


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _SaidTwiceError(repr(key))
        values[key] = value
    return values


def parse_reply(reply: RawReply, prompt: Prompt) -> Reply:
    """Read a reply by the prompt's schema; anything else is an error, never a guess.

    Raises:
        ReplyError: says what is wrong with the reply.
    """
    if not prompt.schema_:
        return _sentence(reply)
    values = reply_values(reply, prompt.schema_)
    caption, changed, differences = values["caption"], values["changed"], values.get("differences", [])
    if not isinstance(changed, bool):
        raise ReplyError(f"'changed' in the model's reply is neither true nor false: {shown(reply.text)}")
    if not _is_sentence(caption):
        raise ReplyError(f"'caption' in the model's reply is no sentence: {shown(reply.text)}")
    listed = isinstance(differences, list) and len(differences) <= MOST_DIFFERENCES
    if not listed or not all(_is_sentence(each) for each in differences):
        raise ReplyError(f"'differences' in the model's reply is no list of sentences: {shown(reply.text)}")
    denied = changed and says_no_change(caption)
    if denied or ("differences" in values and changed != bool(differences)):
        raise ReplyError(f"the model's reply contradicts itself about a change: {shown(reply.text)}")
    return Reply(changed=changed, caption=_line(caption), differences=tuple(map(_line, differences)))


def _line(text: str) -> str:
    """One line that can be written: JSON can hold halves of letters, which no file and no terminal can."""
    return " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())


def _is_sentence(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and len(text) <= LONGEST_CAPTION


def _sentence(reply: RawReply) -> Reply:
    """A reply that is the sentence itself, of a model that was trained to say nothing else; the verdict is its own."""
    caption = _line(_answer_in(reply))
    if not caption or len(caption) > LONGEST_CAPTION:
        raise ReplyError(f"the model's reply is no sentence: {shown(reply.text)}")
    return Reply(changed=not says_no_change(caption), caption=caption)


def shown(text: str, most: int = 120) -> str:
    """A reply in an error message: one line, not all of it."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else f"{line[:most]}...")
