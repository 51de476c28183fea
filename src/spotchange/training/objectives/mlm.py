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

    ids: Tensor  # int64 (N, words): some replaced by random words
    masked: Tensor  # bool (N, words): where [MASK] stands
    chosen: Tensor  # bool (N, words): what is to be predicted


def hide_words(
    ids: Tensor, mask: Tensor, *, share: float, vocabulary: int, generator: torch.Generator | None = None
) -> HiddenWords:
    """Choose `share` of the words; of these 80 % become [MASK], 10 % a random word, 10 % stay.

    The begin token is never chosen. The end token can be, or decoding by [MASK] would never end.
    """
    word = mask.clone()
    word[:, 0] = False
    chance = torch.rand(2, *ids.shape, device=ids.device, generator=generator)
    chosen = word & (chance[0] < share)
    masked = chosen & (chance[1] < _AS_MASK)
    swapped = chosen & ~masked & (chance[1] < _AS_MASK + _AS_RANDOM)
    other = torch.randint(vocabulary, ids.shape, device=ids.device, generator=generator)
    return HiddenWords(ids=torch.where(swapped, other, ids), masked=masked, chosen=chosen)


def word_loss(logits: Tensor, targets: Tensor, chosen: Tensor) -> dict[str, Tensor]:
    """Cross-entropy and accuracy where `chosen`, over (N, words, vocabulary)."""
    logits = logits.float()
    each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
    right = (logits.argmax(dim=-1) == targets) & chosen
    return {
        "loss": distributed.global_mean((each * chosen).sum(), chosen.sum()),
        "word_accuracy": right.sum() / chosen.sum().clamp(min=1),
    }
