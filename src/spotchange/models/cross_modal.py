"""IDC-PCL's cross-modal transformer: image cells and words in one sequence, with a mask that says who sees whom.

Pre-training reads [IMG1] cells [IMG2] cells [CLS] [BOS] words [EOS], fine-tuning and decoding the same without [CLS].
Three masks are used: everybody sees everybody (pre-training); words see images and earlier words, images see
images (fine-tuning); the same with a [MASK] beside every word, which scores all words of a sentence at once exactly
as decoding does one by one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spotchange.models.layers import KeyValueCache, Linear
from spotchange.models.pcl_blocks import Stack
from spotchange.models.pcl_tokens import PclTokens


class CrossModalTransformer(Stack):
    """`F_cross` and the output layer over words, which shares nothing with the words that go in."""

    def __init__(self, *, width: int, vocabulary: int, **stack: Any) -> None:
        super().__init__(width=width, **stack)
        self.predict = Linear(width, vocabulary)


def everyone_sees_words(visual: int, text_mask: Tensor) -> Tensor:
    """(rows, 1, 1, tokens): all tokens may be looked at except padding; `text_mask` (rows, words) without [CLS]."""
    always = text_mask.new_ones(len(text_mask), visual + 1)
    return torch.cat([always, text_mask], dim=1)[:, None, None]


def words_see_back(visual: int, words: int, device: torch.device) -> Tensor:
    """(tokens, tokens): images see images, word i sees images and words up to i."""
    places = torch.arange(visual + words, device=device)
    is_image = places < visual
    return is_image[None, :] | (places[None, :] <= places[:, None]) & ~is_image[:, None]


def words_see_back_beside_masks(visual: int, words: int, device: torch.device) -> Tensor:
    """(tokens, tokens) for images, words and as many [MASK]s, the i-th after word i.

    A [MASK] sees images, words up to its own, and itself; nobody else sees it.
    """
    text = visual + words
    seen = torch.zeros(text + words, text + words, dtype=torch.bool, device=device)
    seen[:text, :text] = words_see_back(visual, words, device)
    seen[text:, :text] = seen[visual:text, :text]
    seen[text:, text:] = torch.eye(words, dtype=torch.bool, device=device)
    return seen


class MaskSteps:
    """Sentences in the making for `decoding`: each step appends the last word and a [MASK], and reads the [MASK].

    One preallocated cache a layer holds images first, then words, then one place for the [MASK].
    """

    def __init__(
        self,
        transformer: CrossModalTransformer,
        tokens: PclTokens,
        visual: Tensor,
        *,
        rows_per_pair: int,
        max_words: int,
    ) -> None:
        self.transformer, self.tokens = transformer, tokens
        pairs, self.first, width = visual.shape
        self.length = self.first + max_words + 1
        self.caches = [
            KeyValueCache(pairs, transformer.heads, self.length, width // transformer.heads, like=visual)
            for _ in transformer.blocks
        ]
        self._read_images(visual)
        for cache in self.caches:
            cache.keys = cache.keys.repeat_interleave(rows_per_pair, dim=0)
            cache.values = cache.values.repeat_interleave(rows_per_pair, dim=0)
        self.position = 0

    def _read_images(self, visual: Tensor) -> None:
        """Keys and values of the images, once a pair: they never see a word."""
        places = torch.arange(self.first, device=visual.device)
        seen = torch.zeros(self.first, self.length, dtype=torch.bool, device=visual.device)
        seen[:, : self.first] = True
        self.transformer.step(visual, self.caches, places, seen)

    def step(self, ids: Tensor) -> Tensor:
        """Feed one word a row (rows,); scores of the next (rows, vocabulary) in fp32."""
        both = torch.stack([ids, torch.full_like(ids, self.tokens.mask_id)], dim=1)
        x = self.tokens.of_words(both, first=self.position)
        places = torch.tensor([self.first + self.position, self.length - 1], device=ids.device)
        seen = torch.zeros(2, self.length, dtype=torch.bool, device=ids.device)
        seen[:, : self.first + self.position + 1] = True
        seen[1, -1] = True
        read = self.transformer.step(x, self.caches, places, seen)
        self.position += 1
        scores: Tensor = self.transformer.predict(read[:, 1])
        return scores.float()

    def select(self, rows: Tensor) -> None:
        """Let row i go on from the history of row `rows[i]` (beam search)."""
        for cache in self.caches:
            cache.select(rows)
