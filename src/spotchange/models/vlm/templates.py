"""Conversations in the words of one checkpoint: its own chat template, which is a program of its author."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spotchange.config.prompts import Prompt
from spotchange.errors import ModelError


def conversation(processor: Any, prompt: Prompt) -> str:
    """Everything up to the model's turn, by the checkpoint's own template."""
    if not has_template(processor):
        if prompt.converses:
            raise ModelError(
                "the checkpoint has no chat template",
                hint="a prompt without system text that shows one stacked image needs none (prompt=blip2idc)",
            )
        return prompt.user
    return templated(processor, _messages(prompt), add_generation_prompt=True)


def message(role: str, text: str, *, images: int = 0) -> dict[str, Any]:
    """A turn as templates take it: images, then the text."""
    return {"role": role, "content": [*({"type": "image"} for _ in range(images)), {"type": "text", "text": text}]}


def templated(processor: Any, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = False) -> str:
    """By the checkpoint's own template; where it knows no turn of the system, that text begins the user's first."""

    def written(turns: Sequence[Mapping[str, Any]]) -> str:
        options = {"add_generation_prompt": add_generation_prompt, "tokenize": False}
        return str(processor.apply_chat_template(list(turns), **options))

    for form in (messages, _without_system(messages)):
        try:
            return written(form)
        except Exception as error:  # a template is a program of the checkpoint's author
            refusal = error
    reason = " ".join(str(refusal).split())[:200]
    raise ModelError(f"the checkpoint's chat template refuses this conversation: {reason}") from refusal


def _without_system(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if messages[0]["role"] != "system":
        return messages
    system, first, *further = messages
    *images, asked = first["content"]
    text = f"{system['content'][0]['text']} {asked['text']}".strip()
    return [{**first, "content": [*images, {"type": "text", "text": text}]}, *further]


def without_second_start(processor: Any, text: str) -> dict[str, bool]:
    """For a processor: a template that writes the token of the start itself must not get it twice."""
    start = getattr(processor.tokenizer, "bos_token", None)
    return {"add_special_tokens": False} if start and text.startswith(start) else {}


def has_template(processor: Any) -> bool:
    """Whether the checkpoint knows conversations."""
    tokenizer = getattr(processor, "tokenizer", None)
    return any(getattr(each, "chat_template", None) for each in (processor, tokenizer))


def _messages(prompt: Prompt, reply: str | None = None) -> list[dict[str, Any]]:
    messages = [message("system", prompt.system)] if prompt.system else []
    messages.append(message("user", prompt.user, images=2 if prompt.images == "two" else 1))
    return messages if reply is None else [*messages, message("assistant", reply)]


def closing(processor: Any, prompt: Prompt, opening: str) -> str:
    """What the template writes behind a reply, e.g. its token for the end of a turn."""
    if not has_template(processor):
        return ""
    whole = templated(processor, _messages(prompt, "REPLY"))
    return whole[len(opening) :].partition("REPLY")[2].strip() if whole.startswith(opening) else ""
