"""Masked visual contrastive learning: which of the batch's hidden cells was it that is hidden here?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.training import distributed


@dataclass(frozen=True, kw_only=True)
class HiddenCells:
    """Grid features with some cells of one picture of each pair set to zero."""

    cells: Tensor  # (N, pictures, cells, channels)
    hidden: Tensor  # bool (N, pictures, cells): which


def hide_cells(cells: Tensor, *, share: float, generator: torch.Generator | None = None) -> HiddenCells:
    """Hide each cell of a random picture of every pair with chance `share`, and at least one."""
    pairs, pictures, count = cells.shape[:3]
    picture = torch.randint(pictures, (pairs,), device=cells.device, generator=generator)
    chance = torch.rand(pairs, count, device=cells.device, generator=generator)
    drawn = (chance < share) | (chance == chance.amin(dim=1, keepdim=True))
    here = torch.arange(pictures, device=cells.device) == picture[:, None]
    hidden = here[:, :, None] & drawn[:, None]
    return HiddenCells(cells=cells.masked_fill(hidden[..., None], 0), hidden=hidden)


def cell_scores(guesses: Tensor, truth: Tensor, shown: Tensor) -> Tensor:
    """Cosines of guesses at hidden cells (H, channels), first with the true features of these cells (H, channels),
    then with the guesses at cells that are shown (S, channels): (H, H + S)."""
    unit = F.normalize(guesses.float(), dim=-1)
    against = torch.cat([F.normalize(truth.detach().float(), dim=-1), F.normalize(shown.float(), dim=-1)])
    return unit @ against.T


def cell_loss(guesses: Tensor, truth: Tensor, shown: Tensor, *, temperature: float) -> dict[str, Tensor]:
    """Cross-entropy of every hidden cell's own feature among all columns of `cell_scores`, and its mean cosine.

    Other hidden cells are told apart by their features; cells that are shown by what the model itself makes of them,
    so that guesses of hidden cells keep away from the picture's other contents. Gradients flow through both.
    """
    scores = cell_scores(guesses, truth, shown)
    own = torch.arange(len(guesses), device=guesses.device)
    each = F.cross_entropy(scores / temperature, own, reduction="none")
    number = torch.tensor(len(guesses), device=guesses.device)
    return {
        "loss": distributed.global_mean(each.sum(), number),
        "own_similarity": scores[own, own].mean(),
    }
