"""After DUDA+Aux (Hosseinzadeh, Wang 2021): DUDA whose caption must help to find the image after.

In the spirit of the paper, of which the abstract is known: caption and image before must pick the image after among
others. Guessed: gradients pass through soft words (the expected embedding under the speaker's own scores); the other
choices are the batch's images after and the pair's own image before; vectors of 256, temperature 0.1, weight 0.1.
"""

from __future__ import annotations

from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.duda import Duda
from spotchange.models.baselines.matching import unit
from spotchange.models.baselines.skeleton import Reading, Seen

TEMPERATURE = 0.1


class DudaAux(Duda):
    """After DUDA+Aux."""

    title = "after DUDA+Aux"
    published = "DUDA+Aux (2021)"
    weights: ClassVar[dict[str, float]] = {**Duda.weights, "retrieval": 0.1}

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        shared: int = 256,
    ) -> None:
        super().__init__(channels=channels, grid=grid, vocabulary=vocabulary, word=word, hidden=hidden, dropout=dropout)
        self.image = nn.Linear(channels, shared)
        self.composed = nn.Sequential(nn.Linear(channels + word, hidden), nn.ReLU(), nn.Linear(hidden, shared))

    def look(self, before: Tensor, after: Tensor) -> Seen:
        return super().look(before, after) | {"mean_before": before.mean(dim=1), "mean_after": after.mean(dim=1)}

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        losses = super().auxiliary(seen, reading, ids, mask, changed=changed)
        if not changed:  # a distractor's images differ in nothing that a sentence could tell
            return losses
        embedding = cast(nn.Embedding, self.speaker.embed[0]).weight
        soft = reading["logits"].softmax(dim=-1).to(embedding.dtype) @ embedding
        sentence = (soft * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        asked = unit(self.composed(torch.cat([seen["mean_before"], sentence], dim=-1)))
        choices = unit(self.image(torch.cat([seen["mean_after"], seen["mean_before"]])))
        own = torch.arange(len(asked), device=asked.device)
        return losses | {"retrieval": F.cross_entropy((asked @ choices.T).float() / TEMPERATURE, own)}
