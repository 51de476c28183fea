"""A model folder's network on torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from PIL import Image

from spotchange.answering.interface import AnswererCard
from spotchange.answering.runtimes.interface import Encoded, Floats, alternatives
from spotchange.errors import InputError
from spotchange.everyday.language.naming import WINDOW
from spotchange.language.vocabulary import UNK
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import LoadedModel
from spotchange.results import Alternative


class TorchRuntime:
    """`RankingRuntime` on torch; `can_rank` says whether the model has a text encoder."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model: Any = loaded.model  # whatever offers `CaptioningModel`

    @property
    def card(self) -> AnswererCard:
        settings = self.loaded.settings
        return AnswererCard(
            name=self.loaded.name,
            architecture=settings.architecture,
            change_types=tuple(self.loaded.change_types),
            image_size=settings.vision.image_size,
            device=str(self._device),
        )

    @property
    def workers(self) -> int:
        return torch.get_num_threads() if self._device.type == "cpu" else 1

    @property
    def can_rank(self) -> bool:
        return getattr(self.model, "text_encoder", None) is not None

    def set_threads(self, count: int) -> None:
        torch.set_num_threads(count)

    def token_id(self, word: str) -> int | None:
        return self.loaded.tokenizer.token_to_id(word)

    def encode(self, before: Sequence[Image.Image], after: Sequence[Image.Image]) -> Encoded:
        with torch.inference_mode():
            state = self.model.encode(self.loaded.preprocess(list(before)), self.loaded.preprocess(list(after)))
            logits = self.model.change_logits(state)
            return Encoded(
                change_logits=None if logits is None else logits.float().cpu().numpy(),
                heat=self.model.heatmap(state).float().cpu().numpy(),
                features=state.features.float().cpu().numpy(),
                state=state,
            )

    def generate(self, encoded: Encoded, options: DecodingOptions) -> list[list[Alternative]]:
        with torch.inference_mode():
            generated = self.model.generate(encoded.state, options)
        arrays = (generated.ids, generated.log_probabilities.float(), generated.lengths)
        ids, log_probabilities, lengths = (each.cpu().numpy() for each in arrays)
        return alternatives(ids, log_probabilities, lengths, self.loaded.decode)

    def name_windows(self, windows: Sequence[Image.Image]) -> tuple[Floats, Floats]:
        preprocessor = replace(self.loaded.preprocessor, image_size=(WINDOW, WINDOW))
        ready = torch.from_numpy(preprocessor.arrays(windows)).to(self._device)
        with torch.inference_mode():
            nouns, colours = self.model.name_windows(ready)
        return nouns.float().cpu().numpy(), colours.float().cpu().numpy()

    def embed_pairs(self, before: Sequence[Image.Image], after: Sequence[Image.Image]) -> Floats:
        with torch.inference_mode():
            images = (self.loaded.preprocess(list(side)) for side in (before, after))
            return np.asarray(self.model.embed_pair(*images).float().cpu().numpy())

    def unread(self, texts: Sequence[str]) -> tuple[list[str], int]:
        unknown, cut, room = dict[str, None](), 0, self.loaded.settings.text.context - 2
        for text in texts:
            encoding = self.loaded.tokenizer.encode(text, add_special_tokens=False)
            unknown |= {
                text[slice(*place)]: None
                for token, place in zip(encoding.tokens, encoding.offsets, strict=True)
                if token == UNK
            }
            cut += len(encoding.ids) > room
        return list(unknown), cut

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        words, context = self.loaded.settings.vocabulary, self.loaded.settings.text.context
        encoded = [self.loaded.tokenizer.encode(text, add_special_tokens=False).ids[: context - 2] for text in texts]
        lines = [[words.begin, *ids, words.end] for ids in encoded]
        width = max(map(len, lines))
        with torch.inference_mode():
            ids = torch.tensor([line + [words.pad] * (width - len(line)) for line in lines], device=self._device)
            lengths = torch.tensor([len(line) for line in lines], device=self._device)
            mask = torch.arange(width, device=self._device)[None] < lengths[:, None]
            return np.asarray(self.model.embed_text(ids, mask).float().cpu().numpy())

    @property
    def _device(self) -> torch.device:
        result: torch.device = next(self.model.parameters()).device
        return result


def choose_device(device: str) -> str:
    """The device to compute on; a GPU when there is one and the caller leaves the choice."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise InputError(f"unknown device {device!r}", hint="auto, cpu, cuda or cuda:0") from None
    if parsed.type == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device is available here", hint="use --device cpu")
    if parsed.type not in {"cpu", "cuda", "mps"}:
        raise InputError(f"device {device!r} is not supported", hint="auto, cpu, cuda or cuda:0")
    return device
