"""What IDC-PCL's pre-training reads from the outputs of its layers; captioning needs none of it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.models.pcl_blocks import UnbiasedNorm


class CellHead(nn.Module):
    """From a token back to a grid feature; its last layer is the cells' input layer turned round (tied)."""

    def __init__(self, *, width: int, channels: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.norm = UnbiasedNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, outputs: Tensor, input_weight: Tensor) -> Tensor:
        """(..., width) to (..., channels); `input_weight` (width, channels) is the input layer's."""
        return F.linear(self.norm(F.gelu(self.inner(outputs))), input_weight.T, self.bias)


class ClassHeads(nn.Module):
    """Names an image's class, and says whether two images share one."""

    def __init__(self, *, width: int, classes: int) -> None:
        super().__init__()
        self.classify = nn.Linear(width, classes)
        self.match = nn.Linear(2 * width, 2)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.classify.out_features
