"""Masked language modelling: which words are hidden, by what, and the loss at those places."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.training import distributed

_AS_MASK, _AS_RANDOM = 0.8, 0.1  # BERT's shares; the rest is left as it is, yet predicted


@dataclass(frozen=True, kw_only=True)
class HiddenWords:
    """A sentence with words hidden."""

    ids: Tensor  # int64 (N, words): some replaced by [MASK] or by random words
    chosen: Tensor  # bool (N, words): what is to be predicted


def hide_words(
    ids: Tensor,
    mask: Tensor,
    *,
    share: float,
    vocabulary: int,
    mask_id: int,
    end_id: int,
    generator: torch.Generator | None = None,
) -> HiddenWords:
    """Choose each word with chance `share`; of these 80 % become [MASK], 10 % any token, 10 % stay.

    A sentence of which no word was chosen has its first one masked. The begin token is never chosen. The end token is,
    with the same chance, and always becomes [MASK]: or decoding by [MASK] would never end.
    """
    end = mask & (ids == end_id)
    word = mask & ~end
    word[:, 0] = False
    chance = torch.rand(2, *ids.shape, device=ids.device, generator=generator)
    drawn = word & (chance[0] < share)
    first = torch.zeros_like(word)
    first[:, 1] = word[:, 1] & ~drawn.any(dim=1)
    masked = first | (drawn & (chance[1] < _AS_MASK)) | (end & (chance[0] < share))
    swapped = drawn & ~masked & (chance[1] < _AS_MASK + _AS_RANDOM)
    other = torch.randint(vocabulary, ids.shape, device=ids.device, generator=generator)
    hidden = torch.where(swapped, other, ids).masked_fill(masked, mask_id)
    return HiddenWords(ids=hidden, chosen=drawn | masked)


def word_loss(logits: Tensor, targets: Tensor, chosen: Tensor, *, summed: bool = False) -> dict[str, Tensor]:
    """Cross-entropy, its mean or its sum, and accuracy where `chosen`, over (N, words, vocabulary)."""
    logits = logits.float()
    each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    right = (logits.argmax(dim=-1) == targets) & chosen
    total, number = (each * chosen).sum(), chosen.sum()
    return {
        "loss": distributed.global_sum(total) if summed else distributed.global_mean(total, number),
        "word_accuracy": right.sum() / number.clamp(min=1),
    }
