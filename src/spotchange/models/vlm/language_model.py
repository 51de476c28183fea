"""Models that read and write text alone: they see no images, but they can judge captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class TextProcessor:
    """A tokenizer where a processor is expected."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **settings: Any) -> Any:
        """Such templates take a turn as text, not as a list of parts."""
        turns = [{**turn, "content": " ".join(part["text"] for part in turn["content"])} for turn in messages]
        return self.tokenizer.apply_chat_template(turns, **settings)

    def __call__(self, text: Sequence[str], **settings: Any) -> Any:
        return self.tokenizer(list(text), return_token_type_ids=False, **settings)


def reads_text_only(config: Any) -> bool:
    """Whether a checkpoint is a language model, by its kind."""
    from transformers.models.auto import modeling_auto as kinds

    kind = config.model_type
    sees = kind in kinds.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    return kind in kinds.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not sees
