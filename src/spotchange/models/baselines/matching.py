"""Contrastive parts: token-wise matching over the pairs of a batch, InfoNCE, and decorrelation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

IMAGES_AT_ONCE = 32  # rows of the matching matrix: a whole one of 128 images holds 128 x 128 x 196 x 196 numbers


def matching(queries: Tensor, keys: Tensor, heads: int = 1) -> Tensor:
    """(a, b): the mean over cells of the best product with any cell of the other image; (images, cells, width) each.

    Cells of a look for their best in b, and cells of b for theirs in a; both means count half.

    With one head this is the published program, whose "multi-head" matching sums over heads before the maximum;
    with more, each head chooses its own best cell, as the paper describes, and their products are summed.
    """
    apart = [each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in (queries, keys)]
    rows = []
    for part in apart[0].split(IMAGES_AT_ONCE):
        if torch.is_grad_enabled() and len(queries) > IMAGES_AT_ONCE:
            # Kept whole it would fill the memory. Nothing in it is drawn, so no random state is kept either.
            rows.append(checkpoint(_best, part, apart[1], use_reentrant=False, preserve_rng_state=False))
        else:
            rows.append(_best(part, apart[1]))
    return torch.cat(rows)


def _best(queries: Tensor, keys: Tensor) -> Tensor:
    """(images, heads, cells, width of a head) each."""
    a, heads, cells, _ = queries.shape
    b = len(keys)
    left = queries.transpose(0, 1).flatten(1, 2)  # (heads, a x cells, width)
    right = keys.transpose(0, 1).flatten(1, 2).transpose(1, 2)
    products = (left @ right).view(heads, a, cells, b, -1)
    both = products.amax(dim=4).mean(dim=2) + products.amax(dim=2).mean(dim=3)  # (heads, a, b)
    return both.sum(dim=0).float() / 2


def diagonal_loss(logits: Tensor) -> Tensor:
    """Mean of minus the diagonal of the rows' log-softmax: each pair against the others of the batch."""
    return -logits.float().log_softmax(dim=-1).diagonal().mean()


def info_nce(first: Tensor, second: Tensor, scale: Tensor | float) -> Tensor:
    """Both directions between vectors (pairs, width), halved."""
    logits = first @ second.T * scale
    return (diagonal_loss(logits) + diagonal_loss(logits.T)) / 2


def decorrelation(first: Tensor, second: Tensor, off_diagonal: float) -> Tensor:
    """Channels (rows, width) of both images: alike with themselves, unlike all others."""
    with torch.autocast(first.device.type, enabled=False):
        a, b = _standard(first.float()), _standard(second.float())
        correlation = a.T @ b / len(a)
        own = (1 - correlation.diagonal()).square().sum()
        others = correlation.square().sum() - correlation.diagonal().square().sum()
        return own + off_diagonal * others


def _standard(rows: Tensor) -> Tensor:
    return (rows - rows.mean(dim=0)) / rows.std(dim=0)


def salient(residual: Tensor, cells: Tensor | None = None) -> Tensor:
    """(pairs, width): the mean over cells (the residual itself by default), by how large their residual is."""
    weight = residual.float().norm(dim=-1).softmax(dim=-1).to(residual.dtype)
    mean: Tensor = (weight[:, None] @ (residual if cells is None else cells))[:, 0]
    return mean


def unit(x: Tensor) -> Tensor:
    """Rows of length 1."""
    return F.normalize(x, dim=-1)
