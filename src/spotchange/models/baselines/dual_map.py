"""DUDA's localiser: one map over each image, and the sums of the features under them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import CellConv


class DualMap(nn.Module):
    """e = ReLU(dropout(GroupNorm(1x1 convolution))), map = sigmoid(1x1 convolution), shared by both images."""

    def __init__(self, inputs: int, *, hidden: int = 128, groups: int = 32, dropout: float = 0.5) -> None:
        super().__init__()
        self.embed = nn.Sequential(
            CellConv(inputs, hidden), nn.GroupNorm(groups, hidden), nn.Dropout(dropout), nn.ReLU()
        )
        self.att = CellConv(hidden, 1)

    def map_of(self, cells: Tensor) -> Tensor:
        """(images, cells, inputs) to (images, cells) in (0, 1)."""
        convolution, norm, dropout, activation = self.embed
        # A group norm wants channels before places.
        inner = norm(convolution(cells).transpose(1, 2)).transpose(1, 2)
        return torch.sigmoid(self.att(activation(dropout(inner)))[..., 0])

    def maps(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """The maps of both images, in one pass."""
        first, second = self.map_of(torch.cat([before, after])).chunk(2)
        return first, second

    def maps_beside(self, difference: Tensor, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """The maps of [before; difference] and [after; difference]."""
        return self.maps(torch.cat([before, difference], dim=-1), torch.cat([after, difference], dim=-1))


def under(weights: Tensor, cells: Tensor) -> Tensor:
    """SUM over cells of weight x features (neither a mean nor a softmax): (pairs, channels)."""
    return (weights[:, None].to(cells.dtype) @ cells)[:, 0]


def map_sum(first: Tensor, second: Tensor) -> Tensor:
    """(sum of both maps) / (2 pairs): the price of looking."""
    return (first.sum() + second.sum()) / (2 * len(first))


def memory_of(first: Tensor, difference: Tensor, second: Tensor) -> Tensor:
    """(pairs, 3, channels), in the order of the published speakers: before, difference, after."""
    return torch.stack([first, difference, second], dim=1)


def gated(difference: Tensor, cells: Tensor, layers: tuple[nn.Module, nn.Module, nn.Module, nn.Module]) -> Tensor:
    """sigmoid(G1 difference + G2 cells) * tanh(C1 difference + C2 cells): the relation of SRDRL and SMART."""
    gate_difference, gate_cells, difference_layer, cells_layer = layers
    gate = torch.sigmoid(gate_difference(difference) + gate_cells(cells))
    return F.dropout(gate * torch.tanh(difference_layer(difference) + cells_layer(cells)), 0.5, layers[0].training)
