"""The likeliest word of every row and its log-probability: all that greedy decoding asks of the scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from spotchange.models.decoding.arrays import NEVER

# Fewer scores than this are read in no time; more are worth a kernel that must be compiled first.
_MANY_SCORES = 2**22

Chooser = Callable[[Tensor, int | None], tuple[Tensor, Tensor]]


def likeliest(scores: Tensor, forbidden: int | None = None) -> tuple[Tensor, Tensor]:
    """Ids and log-probabilities in fp32, both (rows,), from scores (rows, words) of any precision.

    The word `forbidden` is not chosen; the others' probabilities stay those of the model.
    """
    one_pass = _one_pass_kernel() if scores.is_cuda and scores.numel() >= _MANY_SCORES else None
    if one_pass is not None:
        return one_pass(scores, forbidden)
    log_probabilities = scores.log_softmax(dim=-1, dtype=torch.float32)
    if forbidden is not None:
        log_probabilities[:, forbidden] = NEVER
    best = log_probabilities.max(dim=-1)
    return best.indices, best.values


@cache
def _one_pass_kernel() -> Chooser | None:
    """The CUDA kernel, where there is all it takes; torch's own operations move ten times as many bytes."""
    try:
        from spotchange.models.decoding.argmax_kernel import likeliest_in_one_pass

        likeliest_in_one_pass(torch.zeros(1, 2, device="cuda"), None)
    except Exception:  # no Triton, no C compiler, a GPU it does not know: whatever it is, there is another way
        return None
    return likeliest_in_one_pass
