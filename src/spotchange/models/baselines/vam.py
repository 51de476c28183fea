"""After VAM and VAM+ (Shi et al. 2020): each cell is rebuilt from the other image; what cannot be has changed.

In the spirit of the papers, which are known from memory: a cell is a softmax mix of the other image's cells, agreement
gives the map p of what is unchanged, p X and (1 - p) X feed an LSTM; both directions share weights (M-VAM). Guessed:
sizes, products of normed cells as what the softmax mixes by (with projections of their own it mixes all cells alike at
first, and nothing teaches it better), cosine as agreement, attention after the LSTM. VAM+ tunes the maps by policy
gradient: the reward here is the likelihood of the true caption with maps drawn at random against that with the maps as
they are.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import CellConv, with_coordinates
from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.lstm_system import LstmSystem
from spotchange.models.baselines.skeleton import Reading, Seen


class Vam(LstmSystem):
    """After VAM (the mirrored one)."""

    title = "after VAM"
    published = "VAM (2020)"

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.cells = nn.Sequential(CellConv(channels + 2, width), nn.LayerNorm(width))
        self.slope, self.level = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(-5.0))
        self.speaker = LstmSpeaker(4 * width, vocabulary, word=word, hidden=hidden, dropout=dropout, memory=width)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        first, second = (self.cells(with_coordinates(each, self.grid)) for each in (before, after))
        here, there = torch.cat([first, second]), torch.cat([second, first])
        rebuilt = F.scaled_dot_product_attention(here, there, there)
        # A linear map of the agreement, as a probability: near 1 where the other image explains the cell.
        agreement = F.cosine_similarity(here.float(), rebuilt.float(), dim=-1)
        unchanged = torch.sigmoid(self.slope * agreement + self.level)
        return self._split(first, second, unchanged)

    def _split(self, first: Tensor, second: Tensor, unchanged: Tensor) -> Seen:
        """Context and memory from cells and the maps (2 pairs, cells) of what is unchanged."""
        p_first, p_second = (each[..., None].to(first.dtype) for each in unchanged.chunk(2))
        apart, changed, kept = [], [], []
        for cells, p in ((first, p_first), (second, p_second)):
            far = 1 - p
            # Relative to the image: nearly all of it is unchanged, and what is not would drown in a plain mean.
            apart.append((far * cells).sum(dim=1) / far.sum(dim=1).clamp_min(1e-3))
            changed.append(cells * far / far.amax(dim=1, keepdim=True).clamp_min(1e-3))
            kept.append((p * cells).mean(dim=1))
        return {
            "context": torch.cat([*apart, *kept], dim=-1),
            "memory": torch.cat(changed, dim=1),
            "cells_before": first,
            "cells_after": second,
            "unchanged_before": p_first[..., 0],
            "unchanged_after": p_second[..., 0],
        }

    def heat(self, seen: Seen) -> Tensor:
        return 1 - torch.stack([seen["unchanged_before"], seen["unchanged_after"]], dim=1)


class VamPlus(Vam):
    """After VAM+ (M-VAM+RAF)."""

    title = "after VAM+"
    published = "VAM+ (2020)"
    weights: ClassVar[dict[str, float]] = {"policy": 0.1}

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        chance = torch.cat([seen["unchanged_before"], seen["unchanged_after"]]).float().clamp(1e-4, 1 - 1e-4)
        drawn = torch.bernoulli(chance.detach())
        with torch.no_grad():
            tried = self._split(seen["cells_before"], seen["cells_after"], drawn)
            gain = _likelihood(self.read(tried, ids, mask), ids, mask) - _likelihood(reading, ids, mask)
        log_chance = (drawn * chance.log() + (1 - drawn) * (1 - chance).log()).mean(dim=1)
        first, second = log_chance.chunk(2)
        return {"policy": -(gain * (first + second)).mean()}


def _likelihood(reading: Reading, ids: Tensor, mask: Tensor) -> Tensor:
    """Mean log-probability of each caption's words (pairs,)."""
    log_probabilities = reading["logits"][:, :-1].float().log_softmax(dim=-1).gather(2, ids[:, 1:, None])[..., 0]
    return (log_probabilities * mask[:, 1:]).sum(dim=1) / mask[:, 1:].sum(dim=1).clamp(min=1)
