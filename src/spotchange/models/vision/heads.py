"""Answers beside the sentence: which kind of change, and where."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ChangeHead(nn.Module):
    """The kind of change, from both class tokens and a summary of each image's patches: their mean, or, where the
    change is small and its place is known, their mean weighted by heat and how hot it gets."""

    def __init__(self, *, width: int, change_types: int, hidden: int = 128, by_heat: bool = False) -> None:
        super().__init__()
        self.by_heat = by_heat
        self.inner = nn.Linear(4 * width + 2 * by_heat, hidden)
        self.activation = nn.GELU()
        self.outer = nn.Linear(hidden, change_types)

    def forward(self, classes: Tensor, inter: Tensor, heat: Tensor | None = None) -> Tensor:
        """(pairs, 2, width), (pairs, 2, patches, width) and scores (pairs, 2, patches) to (pairs, change types)."""
        if not self.by_heat or heat is None:
            summary = torch.cat([classes, inter.mean(dim=2)], dim=1).flatten(1)
        else:
            pooled = (heat.softmax(dim=2)[..., None].to(inter.dtype) * inter).sum(dim=2)
            peaks = heat.amax(dim=2).to(inter.dtype) / 8  # of the size of the other inputs
            summary = torch.cat([torch.cat([classes, pooled], dim=1).flatten(1), peaks], dim=1)
        logits: Tensor = self.outer(self.activation(self.inner(summary)))
        return logits


class PatchChangeHead(nn.Module):
    """For every patch of both images: does it belong to the change?"""

    def __init__(self, *, width: int, hidden: int = 128) -> None:
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.activation = nn.GELU()
        self.outer = nn.Linear(hidden, 1)

    def forward(self, inter: Tensor) -> Tensor:
        """(pairs, 2, patches, width) to scores (pairs, 2, patches)."""
        result: Tensor = self.outer(self.activation(self.inner(inter)))[..., 0]
        return result
