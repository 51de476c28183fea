"""Sentences of the generated scenes in the words of another tokenizer, on the device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from spotchange.config.model import VocabularySettings
from spotchange.language import BOS_ID, EOS_ID, SPECIAL_TOKENS, TOKENS
from spotchange.pairs import PairBatch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_EMPTY = -1


class WordTable:
    """Scene words to the pieces another tokenizer writes them with, looked up once.

    Scene sentences are lower-case words with single blanks between, so a tokenizer that splits at blanks
    (CLIP's does) writes a sentence as the pieces of its words in a row; a test holds it to that.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: VocabularySettings, *, context: int) -> None:
        self.context, self.pad = context, vocabulary.pad
        pieces = [self._pieces(tokenizer, vocabulary, index, word) for index, word in enumerate(TOKENS)]
        longest = max(map(len, pieces))
        self._table = torch.tensor([row + [_EMPTY] * (longest - len(row)) for row in pieces])

    def translate(self, batch: PairBatch) -> PairBatch:
        """The same batch with ids and mask of the other tokenizer; what is too long for it is cut, end token kept."""
        ids, mask = self.pieces_of(batch.caption_ids, batch.caption_mask)
        return replace(batch, caption_ids=ids, caption_mask=mask)

    def pieces_of(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Ids and mask (N, words) of scene words as ids and mask (N, at most `context`) of pieces."""
        self._table = self._table.to(ids.device)  # moves once
        pieces = self._table[ids]  # (N, words, pieces a word)
        pieces = torch.where(mask[..., None], pieces, _EMPTY).flatten(1)
        # A stable sort moves the empty places to the end and keeps the order of all others.
        order = torch.sort((pieces == _EMPTY).to(torch.int8), dim=1, stable=True).indices
        pieces = pieces.gather(1, order)
        end = torch.where(pieces == _EMPTY, 0, pieces).gather(1, (pieces != _EMPTY).sum(1, keepdim=True) - 1)
        cut = pieces[:, : self.context]
        too_long = cut[:, -1:] != _EMPTY
        cut = torch.cat([cut[:, :-1], torch.where(too_long, end, cut[:, -1:])], dim=1)
        kept = cut != _EMPTY
        return torch.where(kept, cut, self.pad), kept

    @staticmethod
    def _pieces(tokenizer: Tokenizer, vocabulary: VocabularySettings, index: int, word: str) -> list[int]:
        if index == BOS_ID:
            return [vocabulary.begin]
        if index == EOS_ID:
            return [vocabulary.end]
        if index < len(SPECIAL_TOKENS):
            return []
        return list(tokenizer.encode(word, add_special_tokens=False).ids)
