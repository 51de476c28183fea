"""After BiDiff (Sun et al. 2022): both signed differences, spatial and channel attention, consistency between them.

In the spirit of the paper, of which the abstract is known. Guessed: DUDA's maps as the spatial part, a squeeze and
excitation as the channel part, the consistency loss (the two directions must tell opposite differences), weight 0.1.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import CellConv, with_coordinates
from spotchange.models.baselines.dual_map import DualMap, map_sum, under
from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.lstm_system import LstmSystem
from spotchange.models.baselines.skeleton import Reading, Seen


class BiDiff(LstmSystem):
    """After BiDiff."""

    title = "after BiDiff"
    published = "BiDiff (2022)"
    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3, "consistency": 0.1}

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
        self.spatial = DualMap(2 * width, dropout=dropout)
        self.channel = nn.Sequential(
            nn.Linear(width, width // 4), nn.ReLU(), nn.Linear(width // 4, width), nn.Sigmoid()
        )
        self.speaker = LstmSpeaker(4 * width, vocabulary, word=word, hidden=hidden, dropout=dropout, memory=width)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        first, second = (self.cells(with_coordinates(each, self.grid)) for each in (before, after))
        forth, back = second - first, first - second
        map_forth, map_back = self.spatial.maps(torch.cat([second, forth], dim=-1), torch.cat([first, back], dim=-1))
        l_forth, l_back = self._under(map_forth, forth), self._under(map_back, back)
        l_second, l_first = self._under(map_forth, second), self._under(map_back, first)
        memory = torch.stack([l_first, l_back, l_forth, l_second], dim=1)
        return {"memory": memory, "context": memory.flatten(1), "map_before": map_back, "map_after": map_forth}

    def _under(self, weights: Tensor, cells: Tensor) -> Tensor:
        summed = under(weights, cells) / weights.sum(dim=1, keepdim=True).clamp_min(1e-3)
        result: Tensor = summed * self.channel(summed)
        return result

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        if not changed:
            return {}
        _, back, forth, _ = seen["memory"].float().unbind(dim=1)
        opposite = 1 + F.cosine_similarity(forth, back, dim=-1).mean()
        return {"map_sum": map_sum(seen["map_before"], seen["map_after"]), "consistency": opposite}
