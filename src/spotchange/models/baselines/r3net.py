"""After R3Net+SSP (Tu et al. 2021): each cell minus what the same cell of the other image explains, and predicted tags.

In the spirit of the published code, whose structure and losses it has. Guessed, and since seen to be otherwise there:
tags pass a further layer before the speaker reads them, and dropout stands elsewhere. Its 50 tag words are
CLEVR-Change's; with other words they are the first 50 content words.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import AddedAttention
from spotchange.models.baselines.cells import CellConv, with_coordinates
from spotchange.models.baselines.dual_map import DualMap, memory_of, under
from spotchange.models.baselines.dynamic_system import DetectorSystem
from spotchange.models.baselines.skeleton import Reading, Seen
from spotchange.models.baselines.word_labels import TAG_WORDS, tag_numbers


class MatchDetector(DualMap):
    """Gated match of a cell with the same cell, both ways, and the dual map on [cells; changed]."""

    def __init__(self, channels: int, grid: tuple[int, int], *, width: int, heads: int) -> None:
        super().__init__(2 * width)
        self.grid = grid
        self.img = nn.Sequential(CellConv(channels + 2, width), nn.ReLU())
        self.att_layer = AddedAttention(width, heads)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.fuse = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.fuse_diff = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.fc1 = nn.Linear(width, 6)  # as in DUDA, never trained

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        cells = self.img(with_coordinates(torch.cat([before, after]), self.grid))
        cells = self.att_layer(cells, cells)
        first, second = cells.chunk(2)
        other = torch.cat([second, first])
        changed = cells - torch.sigmoid(self.query(cells) + self.key(other)) * other
        fused = self.fuse(torch.cat(changed.chunk(2), dim=-1))
        map_first, map_second = self.maps_beside(fused, first, second)
        l_first, l_second = under(map_first, first), under(map_second, second)
        l_diff = self.fuse_diff(torch.cat([l_second - l_first, l_first - l_second], dim=-1))
        summary = torch.cat([first.mean(dim=1), second.mean(dim=1), fused.mean(dim=1)], dim=-1)
        return {
            "memory": memory_of(l_first, l_diff, l_second),
            "map_before": map_first,
            "map_after": map_second,
            "summary": summary,
        }


class R3Net(DetectorSystem):
    """R3Net+SSP."""

    title = "after R3Net+SSP"
    published = "R3Net+SSP (2021)"
    weights: ClassVar[dict[str, float]] = {**DetectorSystem.weights, "tags": 0.1}
    tag_of_word: Tensor
    detector_type = MatchDetector

    def own_parts(self, vocabulary: int, width: int, dropout: float) -> dict[str, Any]:
        self.tag_hidden = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Dropout(dropout))
        self.tag_scores = nn.Linear(width, TAG_WORDS)
        self.tag_embed = nn.Linear(TAG_WORDS, width)
        self.register_buffer("tag_of_word", torch.full((vocabulary,), -1, dtype=torch.long))
        return {"tags": width}

    def take_words(self, words: list[str]) -> None:
        self.tag_of_word.copy_(torch.tensor(tag_numbers(words)))

    def look(self, before: Tensor, after: Tensor) -> Seen:
        seen = super().look(before, after)
        scores = self.tag_scores(self.tag_hidden(seen["summary"]))
        return seen | {"tag_scores": scores, "tags": self.tag_embed(scores.sigmoid())}

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        losses = super().auxiliary(seen, reading, ids, mask, changed=changed)
        tags = torch.where(mask, self.tag_of_word[ids], -1) + 1
        said = torch.zeros(len(ids), TAG_WORDS + 1, device=ids.device).scatter(1, tags, 1.0)[:, 1:]
        scores = seen["tag_scores"].float()
        loss = F.binary_cross_entropy_with_logits(scores, said, reduction="none").sum(dim=1).mean()
        return losses | {"tags": loss}
