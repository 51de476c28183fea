"""What the other image shows near each place: found by likeness, so that a camera held again by hand is no change."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LocalMatching(nn.Module):
    """A fine grid of one image against the other's cells within `radius`: how alike each is (a cost volume), and what
    is left of the cell when its best match there is taken away. Four fine cells become one token's input."""

    def __init__(self, *, channels: int, width: int, radius: int) -> None:
        super().__init__()
        self.radius = radius
        self.sharpness = nn.Parameter(torch.tensor(2.0))  # log: likeness is a mean over channels, at most 1
        self.project = nn.Linear(4 * (channels + (2 * radius + 1) ** 2), width, bias=False)

    def forward(self, fine: Tensor) -> Tensor:
        """(2, pairs, channels, rows, columns), before and after, to (2, pairs, rows x columns / 4, width)."""
        mine = F.layer_norm(fine.movedim(2, -1), fine.shape[2:3]).movedim(-1, 2)
        rows, columns = mine.shape[-2:]
        padded = F.pad(mine.flip(0), (self.radius,) * 4)
        steps = range(2 * self.radius + 1)
        near = [padded[..., down : down + rows, across : across + columns] for down in steps for across in steps]
        likeness = torch.stack([(mine * cell).mean(dim=2) for cell in near], dim=2)  # (2, pairs, cells near, ...)
        weights = (likeness * self.sharpness.exp()).softmax(dim=2).to(mine.dtype)
        match = torch.zeros_like(mine)
        for number, cell in enumerate(near):
            match = match + weights[:, :, number, None] * cell
        seen = torch.cat([mine - match, likeness], dim=2).flatten(0, 1)
        cells = self.project(F.pixel_unshuffle(seen, 2).flatten(2).transpose(1, 2))
        result: Tensor = cells.unflatten(0, fine.shape[:2])
        return result
