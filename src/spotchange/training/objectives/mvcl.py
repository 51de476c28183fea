"""Masked visual contrastive learning: which of the batch's cells was it that is hidden here?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class HiddenCells:
    """Grid features with some cells of one picture of each pair set to zero."""

    cells: Tensor  # (N, pictures, cells, channels)
    picture: Tensor  # int64 (N,): which picture
    places: Tensor  # int64 (N, hidden): which of its cells


def hide_cells(cells: Tensor, *, share: float, generator: torch.Generator | None = None) -> HiddenCells:
    """Hide `share` of the cells of a random picture of every pair; as many for each, so that shapes stay the same."""
    pairs, pictures, count = cells.shape[:3]
    picture = torch.randint(pictures, (pairs,), device=cells.device, generator=generator)
    chance = torch.rand(pairs, count, device=cells.device, generator=generator)
    places = chance.topk(max(1, round(share * count)), dim=1).indices
    kept = torch.ones(pairs, pictures, count, 1, dtype=cells.dtype, device=cells.device)
    kept[torch.arange(pairs, device=cells.device)[:, None], picture[:, None], places] = 0
    return HiddenCells(cells=cells * kept, picture=picture, places=places)


def cell_loss(guesses: Tensor, cells: Tensor, hidden: HiddenCells, *, temperature: float) -> dict[str, Tensor]:
    """Contrastive loss of `guesses` (N, hidden, channels) against the true `cells` (N, pictures, cells, channels).

    The positive is the cell's own input feature, the negatives are all cells of the batch that are not hidden.
    """
    rows = torch.arange(len(cells), device=cells.device)[:, None]
    unit = F.normalize(cells.detach().float(), dim=-1)
    own = unit[rows, hidden.picture[:, None], hidden.places]  # (N, hidden, channels)
    guesses = F.normalize(guesses.float(), dim=-1)
    positive = (guesses * own).sum(dim=-1).flatten() / temperature
    is_hidden = torch.zeros(cells.shape[:3], dtype=torch.bool, device=cells.device)
    is_hidden[rows, hidden.picture[:, None], hidden.places] = True
    similarity = (guesses.flatten(0, 1) @ unit.flatten(0, 2).T).float() / temperature  # (N * hidden, all cells)
    negative = similarity.masked_fill(is_hidden.flatten(), float("-inf")).logsumexp(dim=1)
    # -log(e^p / (e^p + sum e^n)) = softplus(log sum e^n - p)
    return {
        "loss": F.softplus(negative - positive).mean(),
        "own_similarity": (positive * temperature).mean(),
    }
