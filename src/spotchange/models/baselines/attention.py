"""Attention in the two layouts of the published programs, with queries, keys and values at hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KeysValues = tuple[Tensor, Tensor]


class Attention(nn.Module):
    """Multi-head attention whose parts can be asked for: decoding keeps keys, maps need weights."""

    def __init__(self, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout

    def queries(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def keys_values(self, x: Tensor) -> KeysValues:
        raise NotImplementedError

    def join(self, x: Tensor) -> Tensor:
        """The heads' results, side by side, to the layer's result."""
        return x

    def attend(self, queries: Tensor, given: KeysValues, mask: Tensor | None = None) -> Tensor:
        """(rows, n, width) from queries (rows, n, width) and keys, values (rows, m, width); mask True: seen."""
        q, k, v = (apart(each, self.heads) for each in (queries, *given))
        drop = self.dropout if self.training else 0.0
        return self.join(F.scaled_dot_product_attention(q, k, v, mask, drop).transpose(1, 2).flatten(2))

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """(rows, heads, n, m) before the softmax."""
        q, k = apart(queries, self.heads), apart(keys, self.heads)
        result: Tensor = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        return result

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attend(self.queries(x), self.keys_values(memory), mask)


class PackedAttention(Attention):
    """The layout of `nn.MultiheadAttention`: one weight for queries, keys and values, and an output projection."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(heads=heads, dropout=dropout)
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width)) if bias else None
        self.out_proj = nn.Linear(width, width, bias=bias)
        nn.init.xavier_uniform_(self.in_proj_weight)
        if bias:
            nn.init.zeros_(self.out_proj.bias)

    def _part(self, x: Tensor, first: int, last: int) -> Tensor:
        width = self.in_proj_weight.shape[1]
        rows = slice(first * width, last * width)
        return F.linear(x, self.in_proj_weight[rows], None if self.in_proj_bias is None else self.in_proj_bias[rows])

    def queries(self, x: Tensor) -> Tensor:
        return self._part(x, 0, 1)

    def keys_values(self, x: Tensor) -> KeysValues:
        keys, values = self._part(x, 1, 3).chunk(2, dim=-1)
        return keys, values

    def join(self, x: Tensor) -> Tensor:
        joined: Tensor = self.out_proj(x)
        return joined


class SplitAttention(Attention):
    """Three linear layers and no output projection, as in the programs of Tu's family."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(heads=heads, dropout=dropout)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def queries(self, x: Tensor) -> Tensor:
        queries: Tensor = self.query(x)
        return queries

    def keys_values(self, x: Tensor) -> KeysValues:
        return self.key(x), self.value(x)


class AddedAttention(SplitAttention):
    """LayerNorm(x + attention of x to memory), without a feed-forward part; dropout is within attention only."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.1, eps: float = 1e-6) -> None:
        super().__init__(width, heads, dropout=dropout)
        self.layer_norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        result: Tensor = self.layer_norm(x + super().forward(x, memory, mask))
        return result


def apart(x: Tensor, heads: int) -> Tensor:
    """(rows, n, width) to (rows, heads, n, width of a head)."""
    result: Tensor = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return result


def seen_by_words(mask: Tensor, *, padding: bool) -> Tensor:
    """(rows or 1, 1, words, words): a word sees itself and those before it; with `padding`, no padding."""
    words = mask.shape[1]
    back = torch.ones(words, words, dtype=torch.bool, device=mask.device).tril()[None, None]
    return back & mask[:, None, None] if padding else back
