"""Answers beside the sentence: which kind of change, and where."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ChangeHead(nn.Module):
    """The kind of change, from both class tokens and the mean of each picture's patches."""

    def __init__(self, *, width: int, change_types: int, hidden: int = 128) -> None:
        super().__init__()
        self.inner = nn.Linear(4 * width, hidden)
        self.activation = nn.GELU()
        self.outer = nn.Linear(hidden, change_types)

    def forward(self, classes: Tensor, inter: Tensor) -> Tensor:
        """(pairs, 2, width) and (pairs, 2, patches, width) to (pairs, change types)."""
        summary = torch.cat([classes, inter.mean(dim=2)], dim=1).flatten(1)
        result: Tensor = self.outer(self.activation(self.inner(summary)))
        return result


class PatchChangeHead(nn.Module):
    """For every patch of both pictures: does it belong to the change?"""

    def __init__(self, *, width: int, hidden: int = 128) -> None:
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.activation = nn.GELU()
        self.outer = nn.Linear(hidden, 1)

    def forward(self, inter: Tensor) -> Tensor:
        """(pairs, 2, patches, width) to scores (pairs, 2, patches)."""
        result: Tensor = self.outer(self.activation(self.inner(inter)))[..., 0]
        return result
