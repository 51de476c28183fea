"""IDC-PCL's blocks as published: a norm of its own kind, pre-norm blocks with ReLU, a norm before each stack."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spotchange.models.layers import FeedForward, KeyValueCache, PostNormBlock, SelfAttention

PRE_NORM, POST_NORM = "pre-norm", "post-norm"


class UnbiasedNorm(nn.Module):
    """Layer norm that divides by (deviation with n - 1, plus epsilon), not by the root of (variance plus epsilon)."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        deviation, mean = torch.std_mean(wide, dim=-1, keepdim=True)
        scaled = (wide - mean) / (deviation + self.eps)
        return (self.weight.float() * scaled + self.bias.float()).to(self.weight.dtype)


class PublishedBlock(nn.Module):
    """x + drop(attention(norm x)), then x + drop(W2 drop(relu(W1 norm x)))."""

    def __init__(self, *, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = UnbiasedNorm(width)
        self.attention = SelfAttention(width=width, heads=heads, dropout=dropout)
        self.feed_forward_norm = UnbiasedNorm(width)
        self.feed_forward = FeedForward(width=width, hidden=inner, activation="relu", dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), mask=mask))
        result: Tensor = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return result

    def step(self, x: Tensor, cache: KeyValueCache, position: Tensor, seen: Tensor, _: None = None) -> Tensor:
        """Some more tokens of a sequence whose earlier ones are in the cache."""
        x = x + self.attention.step(self.attention_norm(x), cache, position, seen)
        result: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return result

    def attention_of(self, x: Tensor, queries: list[int], mask: Tensor | None = None) -> Tensor:
        """Attention weights of some tokens, given the block's input: (rows, heads, queries, tokens)."""
        return self.attention.weights(self.attention_norm(x), queries, mask)


class Stack(nn.Module):
    """Blocks in a row; the published kind normalises what goes in and nothing that comes out."""

    def __init__(self, *, blocks: str, width: int, heads: int, layers: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        published = blocks == PRE_NORM
        kind: type[nn.Module] = PublishedBlock if published else PostNormBlock
        self.norm: Any = UnbiasedNorm(width) if published and layers else nn.Identity()
        self.blocks: Any = nn.ModuleList(
            kind(width=width, heads=heads, inner=inner, dropout=dropout) for _ in range(layers)
        )

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The whole sequence (rows, tokens, width) through all blocks."""
        tokens = self.norm(tokens)
        for block in self.blocks:
            tokens = block(tokens, mask=mask)
        return tokens

    def step(self, tokens: Tensor, caches: list[KeyValueCache], places: Tensor, seen: Tensor) -> Tensor:
        """Some more tokens at `places` of the caches; `seen` (tokens, cached) says at which of them they look."""
        tokens = self.norm(tokens)
        for block, cache in zip(self.blocks, caches, strict=True):
            tokens = block.step(tokens, cache, places, seen, None)
        return tokens

    def attention(self, tokens: Tensor, mask: Tensor | None, queries: list[int]) -> Tensor:
        """Mean-of-heads attention of some tokens in the last block: (rows, queries, tokens)."""
        tokens = self.norm(tokens)
        for block in self.blocks[:-1]:
            tokens = block(tokens, mask=mask)
        weights: Tensor = self.blocks[-1].attention_of(tokens, queries, mask)
        return weights.mean(dim=1)
