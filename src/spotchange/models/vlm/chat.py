"""A pair as a conversation: how images, question and reply become what a checkpoint is called with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spotchange.config.prompts import Prompt
from spotchange.drawing import stacked
from spotchange.errors import ModelError
from spotchange.models.vlm.templates import closing, conversation, without_second_start

IGNORED = -100  # label of a token that is not learnt, as transformers' losses have it


@dataclass(frozen=True, kw_only=True)
class ChatBatch:
    """N pairs as a checkpoint reads them: prompts padded on the left, replies behind them padded on the right."""

    inputs: dict[str, Tensor]  # input_ids, attention_mask (N, tokens), pixel_values and whatever the family adds
    labels: Tensor  # int64 (N, tokens): the reply's ids, elsewhere IGNORED
    prompt_tokens: int  # where replies begin
    change_type: Tensor  # int64 (N,): 0 = none, -1 = unknown

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: Any) -> ChatBatch:
        """The same batch on another device."""
        return ChatBatch(
            inputs={name: value.to(device) for name, value in self.inputs.items()},
            labels=self.labels.to(device),
            prompt_tokens=self.prompt_tokens,
            change_type=self.change_type.to(device),
        )

    def prompts(self) -> dict[str, Tensor]:
        """The inputs without replies, which decoding begins from."""
        tokens = self.labels.shape
        return {
            name: value[:, : self.prompt_tokens] if value.shape == tokens else value
            for name, value in self.inputs.items()
        }


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Images that a processor only normalises, and a prompt that is the same for all of them.

    Processors go through images one by one, in numpy: for scenes drawn at the model's own size that takes longer than
    the step. Whether this gives what the processor gives is tried on the first pair, never assumed.
    """

    tokens: dict[str, Tensor]  # (1, tokens) each
    scale: Tensor  # (3, 1, 1)
    shift: Tensor

    @classmethod
    def of(cls, processor: Any, images: list[Image.Image], encoded: dict[str, Tensor]) -> Uniform | None:
        """From one pair and what the processor makes of it; None where the processor does more."""
        settings = getattr(processor, "image_processor", None)
        mean, std = getattr(settings, "image_mean", None), getattr(settings, "image_std", None)
        tokens = {name: value for name, value in encoded.items() if name != "pixel_values"}
        if not mean or not std or any(value.shape != tokens["input_ids"].shape for value in tokens.values()):
            return None
        scale = 1.0 / (255.0 * torch.tensor(std, dtype=torch.float32))
        shift = -torch.tensor(mean, dtype=torch.float32) / torch.tensor(std, dtype=torch.float32)
        found = cls(tokens=tokens, scale=scale.view(3, 1, 1), shift=shift.view(3, 1, 1))
        wanted, tried = encoded.get("pixel_values"), found.pixels([images])
        same = wanted is not None and wanted.shape == tried.shape and torch.allclose(wanted, tried, atol=1e-5)
        return found if same else None

    def prompts(self, images: list[list[Image.Image]]) -> dict[str, Tensor]:
        """As the processor gives them."""
        tokens = {name: value.expand(len(images), -1) for name, value in self.tokens.items()}
        return {**tokens, "pixel_values": self.pixels(images)}

    def pixels(self, images: list[list[Image.Image]]) -> Tensor:
        """All images, pair after pair, normalised."""
        stacked = np.stack([np.asarray(image) for each in images for image in each])
        return torch.from_numpy(stacked).permute(0, 3, 1, 2) * self.scale + self.shift


class ChatCoder:
    """Writes pairs and replies in the words of one checkpoint."""

    def __init__(self, processor: Any, prompt: Prompt, *, ends: Sequence[int] = (), dtype: torch.dtype) -> None:
        """Prepare what is the same for every pair.

        Args:
            processor: The checkpoint's.
            prompt: What is asked.
            ends: Tokens that end a reply, from the checkpoint's generation settings.
            dtype: Of pixels.
        """
        self.processor, self.prompt, self._dtype = processor, prompt, dtype
        self.tokenizer: Any = processor.tokenizer
        self.tokenizer.padding_side = "left"  # replies begin where prompts end
        self._text = conversation(processor, prompt)
        self._closing = closing(processor, prompt, self._text)
        own = self.tokenizer.eos_token_id
        self._ends = {*ends, *(() if own is None else (own,))}
        if not self._ends:
            raise ModelError("the checkpoint's tokenizer has no token that ends a reply")
        self._end = own if own in ends or not ends else ends[0]
        self._uniform: dict[tuple[int, int], Uniform | None] = {}

    def encode(
        self, pairs: Sequence[tuple[Image.Image, Image.Image]], replies: Sequence[str], change_type: Sequence[int]
    ) -> ChatBatch:
        """Pairs with the replies that are to be learnt."""
        encoded = self._prompts([shown(self.prompt, before, after) for before, after in pairs])
        tokens = encoded["input_ids"].shape
        spoken = [self._spoken(reply) for reply in replies]
        longest = max(map(len, spoken))
        pad = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else self._end
        tail = torch.tensor([ids + [pad] * (longest - len(ids)) for ids in spoken])
        kept = torch.arange(longest) < torch.tensor([[len(ids)] for ids in spoken])
        tails = {"input_ids": tail, "attention_mask": kept.long()}
        inputs = {}
        for name, value in encoded.items():
            if value.shape == tokens:  # one number a token; families have more of them than these two
                value = torch.cat([value, tails.get(name, torch.zeros_like(tail)).to(value.dtype)], dim=1)
            inputs[name] = value.to(self._dtype) if value.is_floating_point() else value
        labels = torch.cat([torch.full(tokens, IGNORED), tail.masked_fill(~kept, IGNORED)], dim=1)
        return ChatBatch(
            inputs=inputs, labels=labels, prompt_tokens=tokens[1], change_type=torch.tensor(list(change_type))
        )

    def reply_tokens(self, reply: str) -> int:
        """How many tokens a reply takes, its end included."""
        return len(self._spoken(reply))

    def texts(self, ids: Tensor) -> list[str]:
        """What was said, from ids (N, tokens) without the prompt."""
        return [str(text).strip() for text in self.tokenizer.batch_decode(ids, skip_special_tokens=True)]

    def _prompts(self, images: list[list[Image.Image]]) -> dict[str, Tensor]:
        """The prompts of pairs, by the processor; images that it would only normalise are normalised together."""
        sizes = {image.size for each in images for image in each}
        if len(sizes) == 1:
            (size,) = sizes
            if size not in self._uniform:
                self._uniform[size] = Uniform.of(self.processor, images[0], self._encoded(images[:1]))
            uniform = self._uniform[size]
            if uniform is not None:
                return uniform.prompts(images)
        return self._encoded(images)

    def _encoded(self, images: list[list[Image.Image]]) -> dict[str, Tensor]:
        texts = [self._text] * len(images)
        once = without_second_start(self.processor, self._text)
        return dict(self.processor(text=texts, images=images, return_tensors="pt", padding=True, **once))

    def _spoken(self, reply: str) -> list[int]:
        ids = list(self.tokenizer(reply + self._closing, add_special_tokens=False)["input_ids"])
        return ids if ids and ids[-1] in self._ends else [*ids, self._end]


def shown(prompt: Prompt, before: Image.Image, after: Image.Image) -> list[Image.Image]:
    """The images that stand for a pair: both, or one with before above after."""
    return [before, after] if prompt.images == "two" else [stacked(before, after)]


def caption_in(prompt: Prompt, reply: str) -> str | None:
    """The caption a reply holds; None where the reply is not of the form that was asked for."""
    if not prompt.schema_:
        return reply or None
    try:
        caption = json.loads(reply)["caption"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return caption if isinstance(caption, str) and caption.strip() else None
