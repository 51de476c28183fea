"""CLIP's words: the embeddings that several parts share, and the causal text transformer."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from spotchange.models.layers import KeyValueCache, PreNormBlock, draw


class WordEmbedding(nn.Module):
    """Word and position vectors, shared by the text encoder, the captioner's input and its output layer."""

    def __init__(self, *, vocabulary: int, width: int, context: int) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.empty(vocabulary, width), freeze=False)
        self.positions = nn.Parameter(torch.empty(context, width))
        draw(self.words.weight, std=0.02)
        draw(self.positions, std=0.01)

    def forward(self, ids: Tensor) -> Tensor:
        result: Tensor = self.words(ids) + self.positions[: ids.shape[1]]  # (rows, words, width)
        return result

    def at(self, ids: Tensor, position: Tensor) -> Tensor:
        """One word a row (rows,) at `position`, a tensor of one number: (rows, 1, width)."""
        result: Tensor = (self.words(ids) + self.positions.index_select(0, position))[:, None]
        return result


class TextTransformer(nn.Module):
    """CLIP's causal blocks and final norm, over embedded words."""

    def __init__(self, *, width: int, heads: int, layers: int, activation: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            PreNormBlock(width=width, heads=heads, activation=activation) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, embedded: Tensor) -> Tensor:
        for block in self.blocks:
            embedded = block(embedded, causal=True)
        result: Tensor = self.norm(embedded)
        return result

    def step(self, embedded: Tensor, caches: list[KeyValueCache], position: Tensor, seen: Tensor) -> Tensor:
        """One more word (rows, 1, width) after those in the caches."""
        for block, cache in zip(self._blocks, caches, strict=True):
            embedded = block.step(embedded, cache, position, seen)
        result: Tensor = self.norm(embedded)
        return result

    def new_caches(self, rows: int, words: int, like: Tensor) -> list[KeyValueCache]:
        """Empty caches, one a block."""
        width = self.norm.normalized_shape[0]
        return [
            KeyValueCache(rows, block.attention.heads, words, width // block.attention.heads, like=like)
            for block in self._blocks
        ]

    @property
    def _blocks(self) -> list[PreNormBlock]:
        return cast(list[PreNormBlock], list(self.blocks))


class TextEncoder(nn.Module):
    """A sentence as one vector: the output at its end token, projected."""

    def __init__(self, *, width: int, heads: int, layers: int, output_width: int, activation: str) -> None:
        super().__init__()
        self.transformer = TextTransformer(width=width, heads=heads, layers=layers, activation=activation)
        self.projection = nn.Linear(width, output_width, bias=False)

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """`embedded` (sentences, words, width); `mask` True on words, begin and end tokens included."""
        hidden = self.transformer(embedded)
        end = mask.sum(dim=1) - 1
        result: Tensor = self.projection(hidden[torch.arange(len(hidden), device=hidden.device), end])
        return result
