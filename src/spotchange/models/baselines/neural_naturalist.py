"""After Neural Naturalist (Forbes et al. 2019): both images' grids, a comparison of them, a joint encoding, a decoder.

In the spirit of the paper, of which a summary is known. Guessed: the difference as the comparison, 2 encoder and
2 decoder layers of width 512, a grid of 2x2 means.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.models.baselines.attention import seen_by_words
from spotchange.models.baselines.cells import CellConv, grid_positions, pooled, pooled_grid
from spotchange.models.baselines.mccformers import MccDecoder
from spotchange.models.baselines.skeleton import Reading, Seen, System
from spotchange.models.baselines.transformer import CrossLayer, WordSteps


class NeuralNaturalist(System):
    """After Neural Naturalist."""

    title = "after Neural Naturalist"
    swap = 0.0  # its data have no distractors

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 2,
        inner: int = 2048,
        dropout: float = 0.1,
        pool: int = 2,
    ) -> None:
        super().__init__()
        self.full_grid, self.pool, self.grid = grid, pool, pooled_grid(grid, pool)
        self.cells = CellConv(channels, width)
        self.columns = nn.Embedding(self.grid[1], width // 2)
        self.rows = nn.Embedding(self.grid[0], width // 2)
        self.parts = nn.Embedding(3, width)  # first image, second image, their difference
        self.encoder = nn.ModuleList(CrossLayer(width, heads, inner, dropout=dropout) for _ in range(layers))
        self.decoder = MccDecoder(vocabulary, width=width, heads=heads, layers=layers, inner=inner, dropout=dropout)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        first, second = (self.cells(pooled(each, self.full_grid, self.pool)) for each in (before, after))
        places = grid_positions(self.columns, self.rows, self.grid)
        joint = torch.cat(
            [
                each + places + part
                for each, part in zip((first, second, second - first), self.parts.weight, strict=True)
            ],
            dim=1,
        )
        for layer in self.encoder:
            joint = layer(joint, joint)
        return {"memory": joint}

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        logits, _ = self.decoder(seen["memory"], ids, seen_by_words(mask, padding=False))
        return {"logits": logits}

    def steps(self, seen: Seen, rows_per_pair: int) -> WordSteps:
        return self.decoder.steps(seen["memory"], rows_per_pair)
