"""A stage that trains a vision-language model: its parts, put together for the one loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from spotchange.config.prompts import Prompt, load_prompt
from spotchange.config.training import Recipe
from spotchange.config.vlm import ChatModelSettings
from spotchange.errors import ConfigError
from spotchange.models.vlm.adapter import load_to_train, read_learnt, save_learnt
from spotchange.models.vlm.chat import ChatBatch, ChatCoder, caption_in
from spotchange.training.loop import StageParts
from spotchange.training.objectives.base import Objective
from spotchange.training.sources.build import chat_source, pairs_per_batch
from spotchange.training.sources.interface import HeldOut
from spotchange.training.validation import Validator


def chat_parts(recipe: Recipe, accelerator: Accelerator, *, validate: bool) -> StageParts:
    """Checkpoint, conversations, loss and how it is judged."""
    assert isinstance(recipe.model, ChatModelSettings)
    settings = recipe.model
    prompt = load_prompt(settings.prompt)
    loaded = load_to_train(settings, start_from=recipe.stage.start_from)
    coder = ChatCoder(loaded.processor, prompt, ends=_ends(loaded.model), dtype=_dtype(loaded.model))
    objective = ReplyObjective(loaded.model)
    place = {"device": accelerator.device, "rank": accelerator.process_index, "processes": accelerator.num_processes}
    source = chat_source(recipe, recipe.data, split=None, **place)
    judged = recipe.validation.data
    held_out = source if judged is None else chat_source(recipe, judged, split=getattr(judged, "split", None), **place)

    def validator(pairs: int | None, split: str) -> Validator | None:
        if not validate or pairs is None:
            return None
        found = held_out.held_out(coder, pairs=pairs, at_once=recipe.validation.pairs_per_batch, split=split)
        if found is None and split == "test":
            raise ConfigError("validation.test_pairs: the data have no test split that could be scored on")
        return None if found is None else ReplyValidator(found, coder, max_tokens=recipe.validation.max_words)

    return StageParts(
        objective=objective,
        source=source.batches(coder, pairs_per_batch(recipe, accelerator.num_processes)),
        validator=validator(recipe.validation.pairs, "val"),
        tester=validator(recipe.validation.test_pairs, "test"),
        save_model=lambda folder: save_learnt(
            folder, loaded, prompt, card=_card(recipe, settings, prompt), recipe=recipe.to_yaml()
        ),
    )


class ReplyObjective(Objective):
    """The next token of the reply, given the images, the question and the reply so far: the model's own loss.

    What does not learn is neither saved nor loaded.
    """

    metric = "CIDEr-D"
    speaks = True

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, mean=(0.0,) * 3, std=(1.0,) * 3)  # the checkpoint's processor normalises

    def forward(self, batch: ChatBatch) -> dict[str, Tensor]:  # type: ignore[override]
        batch = batch.to(self._scale.device)
        return {"loss": self.model(**batch.inputs, labels=batch.labels).loss}

    def state_dict(self, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """Of what learns: a checkpoint of billions lies on disk already."""
        learning = {name for name, value in self.named_parameters() if value.requires_grad}
        return {name: value for name, value in super().state_dict(**options).items() if name in learning}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Go on from `state_dict`."""
        if state_dict.keys() != self.state_dict().keys():
            raise ValueError("other parts of it learnt")
        return super().load_state_dict(state_dict, strict=False, assign=assign)

    def take_weights(self, folder: Path) -> None:
        """Those that a run saved as an adapter or a whole checkpoint."""
        read_learnt(self.model, folder)


class ReplyValidator(Validator):
    """Judges what a vision-language model replies; a reply that cannot be read says nothing and is counted."""

    def __init__(self, held_out: HeldOut, coder: ChatCoder, *, max_tokens: int | None) -> None:
        longest = max(int((batch.labels >= 0).sum(1).max()) for batch in held_out.batches)
        super().__init__(held_out, decode=str, max_words=max_tokens or longest + 8)
        self._coder = coder

    def say(self, objective: Objective, batch: ChatBatch) -> tuple[list[str], None]:
        batch = batch.to(objective.model.device)
        limit = self.options.max_words
        ids = objective.model.generate(**batch.prompts(), max_new_tokens=limit, do_sample=False)
        replies = self._coder.texts(ids[:, batch.prompt_tokens :])
        return [caption_in(self._coder.prompt, reply) or "" for reply in replies], None


def _ends(model: Any) -> list[int]:
    ends = getattr(model.generation_config, "eos_token_id", None)
    return list(ends) if isinstance(ends, list | tuple) else [] if ends is None else [ends]


def _dtype(model: Any) -> torch.dtype:
    dtype: torch.dtype = model.dtype
    return dtype


def _card(recipe: Recipe, model: ChatModelSettings, prompt: Prompt) -> str:
    """The folder's README: what the hub shows."""
    kind = "a LoRA adapter" if model.lora is not None else "all weights"
    return f"""---
base_model: {model.base}
library_name: {"peft" if model.lora is not None else "transformers"}
tags: [image-difference-captioning, spotchange]
---
# {recipe.name}

Says what changed between two images: {kind} of `{model.base}`, trained by `spotchange train` for up to
{recipe.stage.steps} steps of {recipe.stage.pairs_per_step} pairs, asked by the prompt `{prompt.signature}`
(`prompt.yaml`). How it was trained: `recipe.yaml`.

```
spotchange caption before.png after.png --model vlm:FOLDER
```
"""
