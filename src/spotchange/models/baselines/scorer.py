"""SCORER and its cross-modal backward reasoning (Tu et al. 2023), read in the published code and paper."""

from __future__ import annotations

import math
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import AddedAttention, PackedAttention
from spotchange.models.baselines.cells import CellConv, grid_positions, with_coordinates
from spotchange.models.baselines.matching import diagonal_loss, matching
from spotchange.models.baselines.skeleton import Reading, Seen
from spotchange.models.baselines.tu_speaker import TuSpeaker, TuSystem, mean_of_words

MOST = math.log(100.0)  # of a learned scale, as a logarithm


class ScaledAttention(AddedAttention):
    """Attention with the learned scale of its matching."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.logit_scale = nn.Parameter(torch.tensor(1.0))


class CrossImageLayer(nn.Module):
    """Each image asks the other, from the old values, with shared weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = ScaledAttention(width, heads)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        new_first, new_second = self.attention(torch.cat([first, second]), torch.cat([second, first])).chunk(2)
        return new_first, new_second


class ScorerDetector(nn.Module):
    """Projected cells with places, cross layers, and both results joined cell by cell."""

    def __init__(self, channels: int, grid: tuple[int, int], *, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.grid = grid
        self.img = nn.Sequential(CellConv(channels, width))
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.scorer = nn.ModuleList(CrossImageLayer(width, heads) for _ in range(layers))
        self.embed_fc = nn.Sequential(nn.Linear(2 * width, width), nn.Dropout(0.1), nn.ReLU())

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        places = grid_positions(self.w_embedding, self.h_embedding, self.grid)
        first, second = self.img(before) + places, self.img(after) + places
        seen = {"tokens_before": first, "tokens_after": second}
        for number, layer in enumerate(self.scorer, 1):
            seen |= {f"into_{number}_before": first, f"into_{number}_after": second}
            first, second = layer(first, second)
        memory = self.embed_fc(torch.cat([first, second], dim=-1))
        return seen | {"memory": memory, "last_before": first, "last_after": second}


class Contrast(nn.Module):
    """Queries and keys of a matching, with its scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.logit_scale = nn.Parameter(torch.tensor(1.0))


class BackwardReasoning(nn.Module):
    """CBR: the image before and the sentence must give the image after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.conv1 = CellConv(2 * width, width)
        self.mh_att = PackedAttention(width, heads, bias=False)
        self.conv2 = nn.Sequential(CellConv(width, width))
        self.contra = Contrast(width)

    def imagined(self, before: Tensor, sentence: Tensor) -> Tensor:
        """(pairs, cells, width) from cells and a vector of the sentence."""
        joined = self.conv1(torch.cat([before, sentence[:, None].expand_as(before)], dim=-1))
        imagined: Tensor = self.conv2(self.mh_att(joined, joined))
        return imagined

    def forward(self, before: Tensor, sentence: Tensor, after: Tensor, heads: int = 1) -> Tensor:
        imagined = self.imagined(before, sentence)
        matrix = matching(self.contra.query(imagined), self.contra.key(after), heads) * self.contra.logit_scale.exp()
        return (diagonal_loss(matrix) + diagonal_loss(matrix.T)) / 2


class ScorerSystem(TuSystem):
    """SCORER.

    Args:
        cbr: with cross-modal backward reasoning.
        matching_heads: 1 is the published program; the paper's ablation credits its attention's 8.
        contrast: pairs that are told apart from each other at a time; 0: all of the batch, as published, whose cost
            grows with the square of the batch.
        as_published: CBR's weights do not learn (the published optimiser is not given them), and only the last
            layer's scale is capped.
    """

    title = "SCORER"
    published = "SCORER (2023)"
    weights: ClassVar[dict[str, float]] = {"mtm": 0.1}
    says_unknown = False
    cbr_part = False
    change_detector: ScorerDetector

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 2,
        word: int = 300,
        decoder_heads: int = 8,
        decoder_layers: int = 2,
        matching_heads: int = 1,
        contrast: int = 0,
        as_published: bool = False,
    ) -> None:
        super().__init__()
        self.grid, self.matching_heads, self.as_published = grid, matching_heads, as_published
        self.contrast = contrast
        self.change_detector = ScorerDetector(channels + 2, grid, width=width, heads=heads, layers=layers)
        self.speaker = TuSpeaker(vocabulary, width=width, word=word, heads=decoder_heads, layers=decoder_layers)
        if self.cbr_part:
            self.cbr = BackwardReasoning(width, heads)
            self.cbr.requires_grad_(not as_published)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        return super().look(with_coordinates(before, self.grid), with_coordinates(after, self.grid))

    def attentions(self) -> list[ScaledAttention]:
        """Of the cross layers, in order."""
        return [cast(CrossImageLayer, each).attention for each in self.change_detector.scorer]

    def matrices(self, seen: Seen, layer: int) -> tuple[Tensor, Tensor]:
        """Matching of one layer (from 1), rows the query image: before asks after, and after asks before."""
        attention = self.attentions()[layer - 1]
        before, after = seen[f"into_{layer}_before"], seen[f"into_{layer}_after"]
        scale = attention.logit_scale.exp()
        asked_by_before = matching(attention.query(before), attention.key(after), self.matching_heads)
        asked_by_after = matching(attention.query(after), attention.key(before), self.matching_heads)
        return asked_by_before * scale, asked_by_after * scale

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        sentences = mean_of_words(reading["states"], mask)
        size = self.contrast or len(ids)
        parts = [
            self._contrast(
                {name: value[first : first + size] for name, value in seen.items()}, sentences[first : first + size]
            )
            for first in range(0, len(ids), size)
        ]
        return {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}

    def _contrast(self, seen: Seen, sentences: Tensor) -> dict[str, Tensor]:
        first, second = self.matrices(seen, len(self.change_detector.scorer))  # only the last layer counts
        losses = {"mtm": (diagonal_loss(first) + diagonal_loss(second)) / 2}
        if self.cbr_part:
            losses["cbr"] = self.cbr(seen["tokens_before"], sentences, seen["tokens_after"], self.matching_heads)
        return losses

    def heat(self, seen: Seen) -> Tensor:
        """How little a cell finds in the other image, at the entrance of the last layer."""
        number = len(self.change_detector.scorer)
        before, after = (F.normalize(seen[f"into_{number}_{side}"], dim=-1) for side in ("before", "after"))
        alike = before @ after.transpose(1, 2)
        return torch.stack([1 - alike.amax(dim=2), 1 - alike.amax(dim=1)], dim=1).clamp_min(0)

    def after_step(self) -> None:
        scales = [each.logit_scale for each in self.attentions()]
        with torch.no_grad():
            for scale in scales[-1:] if self.as_published else scales:
                scale.clamp_(max=MOST)
            if self.cbr_part and not self.as_published:
                self.cbr.contra.logit_scale.clamp_(max=MOST)


class ScorerCbr(ScorerSystem):
    """SCORER+CBR."""

    title = "SCORER+CBR"
    published = "SCORER+CBR (2023)"
    weights: ClassVar[dict[str, float]] = {"mtm": 0.1, "cbr": 1e-3}
    cbr_part = True
