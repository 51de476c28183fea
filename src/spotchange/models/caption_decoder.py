"""CLIP4IDC's captioner: a transformer encoder over visual tokens, a transformer decoder over words."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from spotchange.models.layers import KeyValueCache, Linear, PostNormBlock, linear
from spotchange.models.text_encoder import TextTransformer, WordEmbedding


class WordPredictor(nn.Module):
    """Output layer: dense, GELU, LayerNorm, then the word embeddings themselves (tied) plus a bias a word."""

    def __init__(self, *, width: int, word_width: int, vocabulary: int) -> None:
        super().__init__()
        self.dense = Linear(width, word_width)
        self.activation = nn.GELU()
        self.norm = nn.LayerNorm(word_width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        return linear(self.norm(self.activation(self.dense(x))), words, self.bias)


class CaptionDecoder(nn.Module):
    """Visual tokens and the words so far in, scores of the next word out.

    `memory="layerwise"` feeds encoder layer i to the cross-attention of decoder layer i, as the published
    program does; `memory="last"` feeds the last encoder layer to all, as transformers usually do.
    With a `language` encoder (FT1, FT2) the decoder reads its outputs in place of the embedded words.
    Linear layers stand in front only where widths differ.
    """

    def __init__(
        self,
        *,
        visual_width: int,
        word_width: int,
        vocabulary: int,
        width: int,
        heads: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float = 0.1,
        memory: str = "layerwise",
        language: TextTransformer | None = None,
    ) -> None:
        super().__init__()
        self.memory = memory
        self.heads = heads
        self.visual_input = Linear(visual_width, width) if visual_width != width else nn.Identity()
        self.encoder = nn.ModuleList(
            PostNormBlock(width=width, heads=heads, dropout=dropout) for _ in range(encoder_layers)
        )
        self.language = language
        self.word_input = Linear(word_width, width) if word_width != width else nn.Identity()
        self.word_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.decoder = nn.ModuleList(
            PostNormBlock(width=width, heads=heads, dropout=dropout, cross=True) for _ in range(decoder_layers)
        )
        self.predict = WordPredictor(width=width, word_width=word_width, vocabulary=vocabulary)

    def read(self, tokens: Tensor) -> list[Tensor]:
        """What each decoder layer sees of the images: (pairs, tokens, width) for every layer."""
        x = self.visual_input(tokens)
        outputs = []
        for block in self.encoder:
            x = block(x)
            outputs.append(x)
        return outputs if self.memory == "layerwise" else [x] * len(self.decoder)

    def forward(self, tokens: Tensor, ids: Tensor, words: WordEmbedding) -> Tensor:
        """Scores of every next word, given the true ones (teacher forcing): (pairs, words, vocabulary)."""
        memory = self.read(tokens)
        x = words(ids)
        if self.language is not None:
            x = self.language(x)
        x = self.dropout(self.word_norm(self.word_input(x)))
        for block, seen in zip(self.decoder, memory, strict=True):
            x = block(x, causal=True, memory=seen)
        result: Tensor = self.predict(x, words.words.weight)
        return result

    def visual_keys_values(self, tokens: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the images for each decoder layer, computed once a pair."""
        memory = self.read(tokens)
        return [block.cross.keys_values(seen) for block, seen in zip(self._blocks, memory, strict=True) if block.cross]

    def step(
        self,
        ids: Tensor,
        words: WordEmbedding,
        *,
        position: Tensor,
        seen: Tensor,
        caches: list[KeyValueCache],
        visual: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Scores of the next word (rows, vocabulary) after one more word a row (rows,)."""
        x = words.at(ids, position)
        own_caches = caches[-len(self.decoder) :]
        if self.language is not None:
            x = self.language.step(x, caches[: -len(self.decoder)], position, seen)
        x = self.word_norm(self.word_input(x))
        for block, cache, image in zip(self._blocks, own_caches, visual, strict=True):
            x = block.step(x, cache, position, seen, image)
        result: Tensor = self.predict(x[:, 0], words.words.weight)
        return result

    def new_caches(self, rows: int, words: int, like: Tensor) -> list[KeyValueCache]:
        """Empty caches for every layer that attends over words, the language encoder's first."""
        width = self.word_norm.normalized_shape[0]
        own = [KeyValueCache(rows, self.heads, words, width // self.heads, like=like) for _ in self.decoder]
        return own if self.language is None else self.language.new_caches(rows, words, like) + own

    @property
    def _blocks(self) -> list[PostNormBlock]:
        return cast(list[PostNormBlock], list(self.decoder))
