"""IDC-PCL's image difference encoder: grid cells of each picture alone (F_sing), then of both together (F_pair)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.models.layers import PostNormBlock, draw


class StandardCells(nn.Module):
    """Every channel of the grid features with mean 0 and deviation 1 over the batch; over past ones outside training.

    A ResNet's features are mostly what all pictures have in common. Post-norm layers keep that and let go of the rest
    within a hundred steps, after which sentences know nothing of the pictures any more.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, cells: Tensor) -> Tensor:
        """(..., channels), any dtype, to the same shape and dtype."""
        rows = cells.reshape(-1, cells.shape[-1]).float()
        standard = F.batch_norm(rows, self.mean, self.variance, training=self.training, momentum=0.1)
        return standard.view(cells.shape).to(cells.dtype)


class DifferenceEncoder(nn.Module):
    """[IMG1] cells [IMG2] cells, embedded with position and type, through both kinds of layers.

    Without any layer (the ablation) what remains is the embedding that `F_cross` reads. One picture alone, as in
    image captioning data, is the same with [IMG1] and its cells only.
    """

    def __init__(
        self,
        *,
        channels: int,
        cells: int,
        width: int,
        heads: int,
        single_layers: int,
        pair_layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.input = nn.Linear(channels, width)
        self.image_vector = nn.Parameter(torch.empty(2, width))  # [IMG1], [IMG2]
        self.type_vector = nn.Parameter(torch.empty(2, width))
        self.positions = nn.Parameter(torch.empty(1 + cells, width))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.single = nn.ModuleList(
            PostNormBlock(width=width, heads=heads, dropout=dropout) for _ in range(single_layers)
        )
        self.pair = nn.ModuleList(PostNormBlock(width=width, heads=heads, dropout=dropout) for _ in range(pair_layers))
        for added in (self.image_vector, self.type_vector, self.positions):
            draw(added, std=0.02)

    def forward(self, cells: Tensor) -> Tensor:
        """(pairs, pictures, cells, channels), one or two pictures, to (pairs, pictures * (1 + cells), width)."""
        pairs, pictures, count = cells.shape[:3]
        embedded: Tensor = self.input(cells)
        marks = self.image_vector[:pictures].to(embedded.dtype).expand(pairs, -1, -1)[:, :, None]
        tokens: Tensor = torch.cat([marks, embedded], dim=2) + self.positions + self.type_vector[:pictures, None]
        tokens = self.dropout(self.norm(tokens)).flatten(0, 1)  # (pairs * pictures, 1 + cells, width)
        for block in self.single:
            tokens = block(tokens)
        tokens = tokens.reshape(pairs, pictures * (1 + count), -1)
        for block in self.pair:
            tokens = block(tokens)
        return tokens
