"""IDC-PCL's cross-modal transformer: picture cells and words in one sequence, with a mask that says who sees whom.

The sequence is [IMG1] cells [IMG2] cells [CLS] [BOS] words [EOS]. [CLS] and [MASK] are vectors of the model, not words
of its tokenizer, so that any tokenizer will do. Three masks are used: everybody sees everybody (pre-training); words
see pictures and earlier words, pictures see pictures (fine-tuning); the same with a [MASK] beside every word, which
scores all words of a sentence at once exactly as decoding does one by one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spotchange.models.caption_decoder import WordPredictor
from spotchange.models.layers import KeyValueCache, PostNormBlock, draw
from spotchange.models.text_encoder import WordEmbedding


class CrossModalTransformer(nn.Module):
    """`F_cross` and the output layer over words."""

    def __init__(self, *, width: int, heads: int, layers: int, dropout: float, vocabulary: int) -> None:
        super().__init__()
        self.heads = heads
        self.class_vector = nn.Parameter(torch.empty(width))  # [CLS]
        self.mask_vector = nn.Parameter(torch.empty(width))  # [MASK]
        self.text_vector = nn.Parameter(torch.empty(width))  # the type embedding of words
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.blocks: Any = nn.ModuleList(
            PostNormBlock(width=width, heads=heads, dropout=dropout) for _ in range(layers)
        )
        self.predict = WordPredictor(width=width, word_width=width, vocabulary=vocabulary)
        for added in (self.class_vector, self.mask_vector, self.text_vector):
            draw(added, std=0.02)

    def embed(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """Word vectors (rows, words, width) at positions (words, width) as the first block reads them."""
        embedded: Tensor = self.dropout(self.norm(vectors + positions + self.text_vector))
        return embedded

    def embed_text(self, words: WordEmbedding, ids: Tensor, masked: Tensor | None = None) -> Tensor:
        """[CLS] and the words `ids` (rows, words), [MASK] where `masked`: (rows, 1 + words, width)."""
        vectors = words.words(ids)
        if masked is not None:
            vectors = torch.where(masked[..., None], self.mask_vector.to(vectors.dtype), vectors)
        first = self.class_vector.to(vectors.dtype).expand(len(vectors), 1, -1)
        return self.embed(torch.cat([first, vectors], dim=1), words.positions[: 1 + ids.shape[1]])

    def embed_masks(self, words: WordEmbedding, rows: int, count: int) -> Tensor:
        """A [MASK] at the place after each of `count` words: (rows, count, width)."""
        return self.embed(self.mask_vector.expand(rows, count, -1), words.positions[2 : 2 + count])

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """The whole sequence (rows, tokens, width) through all blocks."""
        for block in self.blocks:
            tokens = block(tokens, mask=mask)
        return tokens

    def attention(self, tokens: Tensor, mask: Tensor | None, queries: list[int]) -> Tensor:
        """Mean-of-heads attention of some tokens in the last block: (rows, queries, tokens)."""
        for block in self.blocks[:-1]:
            tokens = block(tokens, mask=mask)
        weights: Tensor = self.blocks[-1].attention.weights(tokens, queries, mask)
        return weights.mean(dim=1)

    def scores(self, hidden: Tensor, words: WordEmbedding) -> Tensor:
        """Outputs (..., width) to scores of words (..., vocabulary)."""
        scores: Tensor = self.predict(hidden, words.words.weight)
        return scores


def everyone_sees_words(visual: int, text_mask: Tensor) -> Tensor:
    """(rows, 1, 1, tokens): all tokens may be looked at except padding; `text_mask` (rows, words) without [CLS]."""
    always = text_mask.new_ones(len(text_mask), visual + 1)
    return torch.cat([always, text_mask], dim=1)[:, None, None]


def words_see_back(visual: int, text: int, device: torch.device) -> Tensor:
    """(tokens, tokens): pictures see pictures, word i (with [CLS] as word 0) sees pictures and words up to i."""
    places = torch.arange(visual + text, device=device)
    is_picture = places < visual
    return is_picture[None, :] | (places[None, :] <= places[:, None]) & ~is_picture[:, None]


def words_see_back_beside_masks(visual: int, words: int, device: torch.device) -> Tensor:
    """(tokens, tokens) for pictures, [CLS], words and as many [MASK]s, the i-th after word i.

    A [MASK] sees pictures, [CLS], words up to its own, and itself; nobody else sees it.
    """
    text = visual + 1 + words
    seen = torch.zeros(text + words, text + words, dtype=torch.bool, device=device)
    seen[:text, :text] = words_see_back(visual, 1 + words, device)
    seen[text:, :text] = seen[visual + 1 : text, :text]
    seen[text:, text:] = torch.eye(words, dtype=torch.bool, device=device)
    return seen


class MaskSteps:
    """Sentences in the making for `decoding`: each step appends the last word and a [MASK], and reads the [MASK].

    One preallocated cache a layer holds pictures and [CLS] first, then words, then one place for the [MASK].
    """

    def __init__(
        self,
        transformer: CrossModalTransformer,
        words: WordEmbedding,
        visual: Tensor,
        *,
        rows_per_pair: int,
        max_words: int,
    ) -> None:
        self.transformer, self.words = transformer, words
        pairs, self.first, width = len(visual), visual.shape[1] + 1, visual.shape[2]
        self.length = self.first + max_words + 1
        self.caches = [
            KeyValueCache(pairs, transformer.heads, self.length, width // transformer.heads, like=visual)
            for _ in transformer.blocks
        ]
        self._read_pictures(visual)
        for cache in self.caches:
            cache.keys = cache.keys.repeat_interleave(rows_per_pair, dim=0)
            cache.values = cache.values.repeat_interleave(rows_per_pair, dim=0)
        self.position = 0

    def _read_pictures(self, visual: Tensor) -> None:
        """Keys and values of pictures and [CLS], once a pair."""
        nothing = torch.empty(len(visual), 0, dtype=torch.long, device=visual.device)
        x = torch.cat([visual, self.transformer.embed_text(self.words, nothing).to(visual.dtype)], dim=1)
        places = torch.arange(self.first, device=visual.device)
        seen = torch.zeros(self.first, self.length, dtype=torch.bool, device=visual.device)
        seen[:, : self.first] = words_see_back(self.first - 1, 1, visual.device)
        for block, cache in zip(self.transformer.blocks, self.caches, strict=True):
            x = block.step(x, cache, places, seen, None)

    def step(self, ids: Tensor) -> Tensor:
        """Feed one word a row (rows,); scores of the next (rows, vocabulary) in fp32."""
        word = self.words.words(ids)
        vectors = torch.stack([word, self.transformer.mask_vector.to(word.dtype).expand_as(word)], dim=1)
        positions = self.words.positions[self.position + 1 : self.position + 3]
        x = self.transformer.embed(vectors, positions)
        places = torch.tensor([self.first + self.position, self.length - 1], device=ids.device)
        seen = torch.zeros(2, self.length, dtype=torch.bool, device=ids.device)
        seen[:, : self.first + self.position + 1] = True
        seen[1, -1] = True
        for block, cache in zip(self.transformer.blocks, self.caches, strict=True):
            x = block.step(x, cache, places, seen, None)
        self.position += 1
        return self.transformer.scores(x[:, 1], self.words).float()

    def select(self, rows: Tensor) -> None:
        """Let row i go on from the history of row `rows[i]` (beam search)."""
        for cache in self.caches:
            cache.select(rows)
