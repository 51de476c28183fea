"""Captions to padded token ids and back, by a model's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from spotchange.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CAPTIONS_AT_ONCE = 20_000  # an encoding holds far more than its ids


class CaptionCoder:
    """The tokenizer is used as it is, with begin and end tokens that it puts around a caption by itself."""

    def __init__(self, tokenizer: Tokenizer, *, max_words: int) -> None:
        if max_words < 3:
            raise ConfigError(f"max_words must hold begin, a word and end, not {max_words}")
        self._tokenizer, self._max_words = tokenizer, max_words
        self._pad = tokenizer.token_to_id("[PAD]") or 0  # CLIP pads with 0 and has no token for it

    def ids(self, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask (captions, words); what is longer than `max_words` is cut before its end token."""
        number = {caption: place for place, caption in enumerate(dict.fromkeys(captions))}  # "no change" comes often
        different, cut = list(number), list[list[int]]()
        for first in range(0, len(different), _CAPTIONS_AT_ONCE):
            for encoded in self._tokenizer.encode_batch(different[first : first + _CAPTIONS_AT_ONCE]):
                words = [word for word, used in zip(encoded.ids, encoded.attention_mask, strict=True) if used]
                cut.append(words if len(words) <= self._max_words else [*words[: self._max_words - 1], words[-1]])
        mask = np.arange(self._max_words) < np.array([len(words) for words in cut])[:, None]
        ids = np.full(mask.shape, self._pad, dtype=np.int64)
        ids[mask] = [word for words in cut for word in words]
        places = [number[caption] for caption in captions]
        return torch.from_numpy(ids[places]), torch.from_numpy(mask[places])

    def text(self, ids: Sequence[int]) -> str:
        """The sentence of ids, without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def as_read(self, caption: str) -> str:
        """A caption as it reads once it was cut and encoded: all that a model can tell of it."""
        ids, mask = self.ids([caption])
        return self.text(ids[0][mask[0]].tolist())
