"""IDC-PCL's image difference encoder: grid cells of each image alone (F_sing), then of both together (F_pair)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.models.pcl_blocks import Stack


class StandardCells(nn.Module):
    """Every channel of the grid features with mean 0 and deviation 1 over the batch; over past ones outside training.

    An option of ours: a ResNet's features are mostly what all images have in common. Post-norm layers keep that and
    let go of the rest within a hundred steps, after which sentences know nothing of the images any more.
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
    """Both kinds of layers over [IMG1] cells [IMG2] cells.

    Without any layer (the ablation) the embedded tokens go straight to `F_cross`. Of one image alone, as in image
    captioning data, `F_sing` reads [IMG1] and its cells, and [IMG2] joins them for `F_pair`.
    """

    def __init__(self, *, single_layers: int, pair_layers: int, **stack: Any) -> None:
        super().__init__()
        self.single = Stack(layers=single_layers, **stack)
        self.pair = Stack(layers=pair_layers, **stack)

    def alone(self, marks: Tensor, cells: Tensor) -> Tensor:
        """`F_sing` over marks (pairs, 2, width) and cells (pairs, images, cells, width), each image by itself."""
        images = cells.shape[1]
        tokens = torch.cat([marks[:, :images, None], cells], dim=2)
        read: Tensor = self.single(tokens.flatten(0, 1))
        return read.view(tokens.shape)

    def forward(self, marks: Tensor, cells: Tensor) -> Tensor:
        """(pairs, tokens, width): two images of 1 + cells tokens each, or one and the mark of the second."""
        alone = self.alone(marks, cells).flatten(1, 2)
        images = cells.shape[1]
        together: Tensor = self.pair(alone if images == 2 else torch.cat([alone, marks[:, 1:]], dim=1))
        return together
