"""Grid features as rows of cells (pairs, cells, channels), and what is done to every cell."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CellConv(nn.Conv2d):
    """A 1x1 convolution, with its weights as published, applied to cells."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__(inputs, outputs, 1, bias=bias)

    def forward(self, cells: Tensor) -> Tensor:
        """(..., cells, inputs) to (..., cells, outputs)."""
        return F.linear(cells, self.weight.flatten(1), self.bias)


def coordinates(grid: tuple[int, int], like: Tensor) -> Tensor:
    """(cells, 2): x = 2 column / columns - 1, then y likewise, of every cell."""
    rows, columns = grid
    x = 2 * torch.arange(columns, device=like.device, dtype=like.dtype) / columns - 1
    y = 2 * torch.arange(rows, device=like.device, dtype=like.dtype) / rows - 1
    return torch.stack([x.expand(rows, columns), y[:, None].expand(rows, columns)], dim=-1).flatten(0, 1)


def with_coordinates(cells: Tensor, grid: tuple[int, int]) -> Tensor:
    """(pairs, cells, channels) to (pairs, cells, channels + 2)."""
    return torch.cat([cells, coordinates(grid, cells).expand(len(cells), -1, -1)], dim=-1)


def grid_positions(columns: nn.Embedding, rows: nn.Embedding, grid: tuple[int, int]) -> Tensor:
    """(cells, width): the column's vector in the first channels, the row's in the last."""
    height, width = grid
    across = columns.weight[:width].expand(height, width, -1)
    down = rows.weight[:height, None].expand(height, width, -1)
    return torch.cat([across, down], dim=-1).flatten(0, 1)


def as_planes(cells: Tensor, grid: tuple[int, int]) -> Tensor:
    """(pairs, cells, channels) to (pairs, channels, rows, columns)."""
    result: Tensor = cells.transpose(1, 2).unflatten(-1, grid)
    return result


def as_cells(planes: Tensor) -> Tensor:
    """(pairs, channels, rows, columns) to (pairs, cells, channels)."""
    return planes.flatten(2).transpose(1, 2)


def pooled(cells: Tensor, grid: tuple[int, int], factor: int) -> Tensor:
    """Means of `factor` x `factor` cells: a coarser grid for systems whose cost grows with the pairs of cells."""
    if factor == 1:
        return cells
    return as_cells(F.avg_pool2d(as_planes(cells, grid), factor, ceil_mode=True))


def pooled_grid(grid: tuple[int, int], factor: int) -> tuple[int, int]:
    """Rows and columns after `pooled`."""
    return -(-grid[0] // factor), -(-grid[1] // factor)


class Bottleneck(nn.Module):
    """ResNet's block on cells, as the satellite systems use it: 1x1, 3x3, 1x1 with batch norms, plus the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.left = nn.Sequential(
            nn.Conv2d(channels, half, 1),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, half, 3, padding=1),
            nn.BatchNorm2d(half),
            nn.ReLU(),
            nn.Conv2d(half, channels, 1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, planes: Tensor) -> Tensor:
        return F.relu(self.left(planes) + planes)
