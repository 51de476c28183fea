"""After VARD-LSTM (Tu et al. 2023): self-attention with local convolutions, residual of an attention without weights.

In the spirit of the published code (the LSTM variant; the numbers that papers quote are mostly of another, never
published one), whose number of weights it has. Guessed, and since seen to be otherwise there: the attention without
weights has heads too, and cells are added to what it gives before its norm.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import AddedAttention
from spotchange.models.baselines.cells import CellConv, as_cells, as_planes, with_coordinates
from spotchange.models.baselines.dual_map import DualMap, memory_of, under
from spotchange.models.baselines.dynamic_system import DetectorSystem
from spotchange.models.baselines.skeleton import Seen


class LocalAttention(AddedAttention):
    """Self-attention plus a depthwise 3x3 convolution of the values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, dropout=0.5)
        self.local = nn.Conv2d(width, width, 3, padding=1, groups=width)

    def around(self, x: Tensor, grid: tuple[int, int]) -> Tensor:
        """LayerNorm(x + attention + convolution of the values)."""
        keys, values = self.keys_values(x)
        attended = self.attend(self.queries(x), (keys, values)) + as_cells(self.local(as_planes(values, grid)))
        result: Tensor = self.layer_norm(x + F.dropout(attended, self.dropout, self.training))
        return result


class ResidualDetector(DualMap):
    """What attention to the other image leaves, fused; the dual map on [cells; difference]."""

    def __init__(self, channels: int, grid: tuple[int, int], *, width: int, heads: int) -> None:
        super().__init__(2 * width)
        self.grid = grid
        self.img = nn.Sequential(CellConv(channels + 2, width))
        self.att_layer = LocalAttention(width, heads)
        self.common_norm = nn.LayerNorm(width)
        self.fuse = nn.Sequential(nn.Linear(2 * width, width), nn.LayerNorm(width), nn.Dropout(0.5), nn.ReLU())
        self.fuse_diff = nn.Sequential(nn.Linear(2 * width, width), nn.LayerNorm(width), nn.Dropout(0.5), nn.ReLU())
        self.fc1 = nn.Linear(width, 6)  # as in DUDA, never trained

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        cells = self.img(with_coordinates(torch.cat([before, after]), self.grid))
        cells = self.att_layer.around(cells, self.grid)
        first, second = cells.chunk(2)
        other = torch.cat([second, first])
        apart = cells - self.common_norm(F.scaled_dot_product_attention(cells, other, other))
        difference = self.fuse(torch.cat(apart.chunk(2), dim=-1))
        map_first, map_second = self.maps_beside(difference, first, second)
        l_first, l_second = under(map_first, first), under(map_second, second)
        l_diff = self.fuse_diff(torch.cat([l_first - l_second, l_second - l_first], dim=-1))
        return {"memory": memory_of(l_first, l_diff, l_second), "map_before": map_first, "map_after": map_second}


class Vard(DetectorSystem):
    """VARD-LSTM."""

    title = "after VARD-LSTM"
    detector_type = ResidualDetector
