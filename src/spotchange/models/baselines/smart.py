"""After SMART (Tu et al. 2024): class tokens and attention between the images, gated differences, kinds of words.

In the spirit of the published code, whose structure and losses it has. Guessed: learned row and column vectors instead
of the third-party relative positions, widths of the gates, kinds of words from our own list. `as_published`: the second
image asks the first one's new values instead of the old.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from spotchange.models.baselines.attention import AddedAttention
from spotchange.models.baselines.cells import CellConv, grid_positions, with_coordinates
from spotchange.models.baselines.dual_map import DualMap, gated, map_sum, under
from spotchange.models.baselines.matching import info_nce
from spotchange.models.baselines.skeleton import Reading, Seen
from spotchange.models.baselines.srdrl import KindGate, kind_loss
from spotchange.models.baselines.tu_speaker import TuCore, TuLayer, TuSpeaker, TuSystem
from spotchange.models.baselines.word_labels import part_of_speech


class SmartDetector(DualMap):
    """Self-attention with a class token for each image, attention between them, gated differences, maps."""

    def __init__(self, channels: int, grid: tuple[int, int], *, width: int, heads: int, as_published: bool) -> None:
        super().__init__(3 * width)
        self.grid, self.as_published = grid, as_published
        self.img = nn.Sequential(CellConv(channels + 2, width))
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.class_token = nn.Parameter(torch.zeros(width))
        self.own, self.cross = AddedAttention(width, heads), AddedAttention(width, heads)
        self.gate_diff, self.gate_img = nn.Linear(width, width), nn.Linear(width, width)
        self.content_diff, self.content_img = nn.Linear(width, width), nn.Linear(width, width)
        self.project = nn.Linear(width, 256)
        self.fuse = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        cells = self.img(with_coordinates(torch.cat([before, after]), self.grid))
        cells = cells + grid_positions(self.w_embedding, self.h_embedding, self.grid)
        token = self.class_token.to(cells.dtype).expand(len(cells), 1, -1)
        cells = torch.cat([token, cells], dim=1)
        first, second = self.own(cells, cells).chunk(2)
        new_first = self.cross(first, second)
        new_second = self.cross(second, new_first if self.as_published else first)
        told_first, told_second = self.project(new_first[:, 0]), self.project(new_second[:, 0])
        first, second = new_first[:, 1:], new_second[:, 1:]
        difference = second - first
        both, images = torch.cat([difference, difference]), torch.cat([first, second])
        relation = gated(both, images, (self.gate_diff, self.gate_img, self.content_diff, self.content_img))
        map_first, map_second = self.map_of(torch.cat([images, both, relation], dim=-1)).chunk(2)
        l_first, l_second = under(map_first, first), under(map_second, second)
        fused = self.fuse(torch.cat([l_second - l_first, l_first - l_second], dim=-1))
        return {
            "memory": torch.stack([l_first, l_second, fused], dim=1),
            "map_before": map_first,
            "map_after": map_second,
            "class_before": told_first,
            "class_after": told_second,
        }


class GatedLayer(TuLayer):
    """c' = LayerNorm(c + gate c), the gate by the kind of the word to come."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.kind_gate = KindGate(width, width, dropout=0.1)
        self.gate_norm = nn.LayerNorm(width, eps=1e-6)

    def gate(self, words: Tensor, seen: Tensor) -> Tensor:
        let_through, _ = self.kind_gate(words, seen)
        gated_view: Tensor = self.gate_norm(seen + let_through)
        return gated_view


class GatedCore(TuCore):
    """The core of gated layers."""

    layer_type = GatedLayer


class GatedSpeaker(TuSpeaker):
    """The speaker of gated layers."""

    def make_core(self, vocabulary: int, **sizes: int) -> TuCore:
        return GatedCore(vocabulary, **sizes)


class Smart(TuSystem):
    """SMART."""

    title = "after SMART"
    published = "SMART (2024)"
    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3, "kinds": 0.4, "pair": 0.1}
    kind_of_word: Tensor

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        word: int = 300,
        layers: int = 2,
        as_published: bool = False,
    ) -> None:
        super().__init__()
        self.change_detector = SmartDetector(channels, grid, width=width, heads=heads, as_published=as_published)
        self.speaker = GatedSpeaker(vocabulary, width=width, word=word, heads=heads, layers=layers)
        self.register_buffer("kind_of_word", torch.zeros(vocabulary, dtype=torch.long))

    def take_words(self, words: list[str]) -> None:
        self.kind_of_word.copy_(torch.tensor([part_of_speech(word) for word in words]))

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        reading = super().read(seen, ids, mask)
        last = self.speaker.core.layer[-1]
        assert isinstance(last, GatedLayer)
        gate = last.kind_gate
        return reading | {"kinds": gate.kinds(gate.hidden(reading["after_words"]))}

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        losses = {
            "kinds": kind_loss(reading["kinds"], self.kind_of_word, ids, mask),
            "pair": info_nce(seen["class_before"], seen["class_after"], 1 / 0.5),
        }
        if changed:
            losses["map_sum"] = map_sum(seen["map_before"], seen["map_after"])
        return losses
