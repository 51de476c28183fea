"""`likeliest` for CUDA in Triton: reads every score once and writes two numbers a row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


@triton.jit
def _likeliest(scores, ids, log_probabilities, words, row_stride, forbidden, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    lowest = -3e38  # finite: two of them have a difference
    best = tl.full([BLOCK], lowest, tl.float32)
    place = tl.zeros([BLOCK], tl.int32)
    # Every lane keeps a running logsumexp of its own: exp(peak) * total.
    peak = tl.full([BLOCK], lowest, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, words, BLOCK):
        word = start + lane
        score = tl.load(scores + row * row_stride + word, mask=word < words, other=0.0).to(tl.float32)
        score = tl.where(word < words, score, lowest)
        higher = tl.maximum(peak, score)
        total = total * tl.exp(peak - higher) + tl.exp(score - higher)
        peak = higher
        better = (score > best) & (word != forbidden)
        best = tl.where(better, score, best)
        place = tl.where(better, word, place)
    top = tl.max(peak, axis=0)
    log_sum = top + tl.log(tl.sum(total * tl.exp(peak - top), axis=0))
    chosen = tl.max(best, axis=0)
    # Of equals the first, as torch does.
    first = tl.min(tl.where(best == chosen, place, words - 1), axis=0)
    tl.store(ids + row, first.to(tl.int64))
    tl.store(log_probabilities + row, chosen - log_sum)


def likeliest_in_one_pass(scores: Tensor, forbidden: int | None) -> tuple[Tensor, Tensor]:
    """See `likeliest.likeliest`."""
    rows, words = scores.shape
    scores = scores.contiguous()
    ids = torch.empty(rows, dtype=torch.long, device=scores.device)
    log_probabilities = torch.empty(rows, dtype=torch.float32, device=scores.device)
    with torch.cuda.device_of(scores):
        _likeliest[(rows,)](
            scores,
            ids,
            log_probabilities,
            words,
            scores.stride(0),
            -1 if forbidden is None else forbidden,
            BLOCK=_BLOCK,
            num_warps=8,
        )
    return ids, log_probabilities
