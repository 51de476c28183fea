"""After VACC (Kim et al. 2021): a viewpoint-agnostic difference, and a cycle from caption and before to after.

In the spirit of the paper: each cell is compared with its counterpart wherever that is in the other image, and a
generator from the image before and the caption must give the change feature of the image after. Guessed: all sizes,
attention without projections as the lookup, cosine distance as the cycle's loss, its weight 0.1.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import CellConv, with_coordinates
from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.lstm_system import LstmSystem
from spotchange.models.baselines.matching import salient
from spotchange.models.baselines.skeleton import Reading, Seen


class Vacc(LstmSystem):
    """After VACC."""

    title = "after VACC"
    published = "VACC (2021)"
    weights: ClassVar[dict[str, float]] = {"cycle": 0.1}

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
        self.cells = CellConv(channels + 2, width)
        self.norm = nn.LayerNorm(width)
        self.fuse = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.1))
        self.imagine = nn.Sequential(nn.Linear(width + hidden, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.speaker = LstmSpeaker(2 * width, vocabulary, word=word, hidden=hidden, dropout=dropout, memory=width)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        first, second = (self.norm(self.cells(with_coordinates(each, self.grid))) for each in (before, after))
        here, there = torch.cat([first, second]), torch.cat([second, first])
        residual = here - F.scaled_dot_product_attention(here, there, there)
        apart_first, apart_second = residual.chunk(2)
        return {
            "memory": self.fuse(torch.cat([apart_first, apart_second], dim=-1)),
            "context": torch.cat([salient(apart_first), salient(apart_second)], dim=-1),
            "apart_before": apart_first,
            "apart_after": apart_second,
            "mean_before": first.mean(dim=1),
        }

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        if not changed:
            return {}
        sentence = (reading["states"] * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        imagined = self.imagine(torch.cat([seen["mean_before"], sentence], dim=-1))
        target = salient(seen["apart_after"]).detach()  # or both ends would agree on nothing
        return {"cycle": 1 - F.cosine_similarity(imagined.float(), target.float(), dim=-1).mean()}

    def heat(self, seen: Seen) -> Tensor:
        return torch.stack([seen["apart_before"].norm(dim=-1), seen["apart_after"].norm(dim=-1)], dim=1)
