"""IDC-PCL: grid features, an image difference encoder, and one transformer over both pictures and the words.

Pre-training reads pictures and text together (`read_together`); captions come from appending [MASK] and predicting it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from spotchange.models.cross_modal import (
    CrossModalTransformer,
    MaskSteps,
    everyone_sees_words,
    words_see_back,
    words_see_back_beside_masks,
)
from spotchange.models.decoding import search
from spotchange.models.decoding.torch_arrays import TorchArrays
from spotchange.models.difference_encoder import DifferenceEncoder, StandardCells
from spotchange.models.interface import DecodingOptions, Generated, VisualState
from spotchange.models.text_encoder import WordEmbedding


class IdcPcl(nn.Module):
    """A `CaptioningModel`.

    `encoder` gives the cells of both pictures (pairs, 2, cells, channels); all else learns on top of it.
    """

    def __init__(
        self,
        *,
        image_size: tuple[int, int],
        grid: tuple[int, int],
        encoder: nn.Module,
        difference: DifferenceEncoder,
        words: WordEmbedding,
        captioner: CrossModalTransformer,
        special: search.SpecialIds,
        change_head: nn.Module | None,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.grid = grid
        self.special = special
        self.encoder = encoder
        self.standard = StandardCells(difference.input.in_features)
        self.difference = difference
        self.words = words
        self.captioner = captioner
        self.change_head = change_head

    # What the pictures say

    def see(self, before: Tensor, after: Tensor) -> Tensor:
        """The grid features of both pictures, standardised: (pairs, 2, cells, channels)."""
        cells: Tensor = self.standard(self.encoder(before, after))
        return cells

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """Both pictures (pairs, 3, height, width), preprocessed."""
        return self.encode_cells(self.see(before, after))

    def encode_cells(self, cells: Tensor) -> VisualState:
        """Standardised grid features (pairs, pictures, cells, channels) of one or two pictures."""
        tokens: Tensor = self.difference(cells)
        pairs, pictures, count = cells.shape[:3]
        by_picture = tokens.view(pairs, pictures, 1 + count, -1)
        patches = by_picture[:, :, 1:]
        features = torch.cat([by_picture[:, :, 0].mean(dim=1), patches.mean(dim=(1, 2))], dim=-1)
        return VisualState(tokens=tokens, grid=self.grid, features=features, extras={"inter": patches})

    def image_outputs(self, hidden: Tensor) -> Tensor:
        """[IMG1] and [IMG2] (as many as there are) among outputs that begin with pictures: (pairs, pictures, width)."""
        second = 1 + self.grid[0] * self.grid[1]
        places = [0] if hidden.shape[1] < 2 * second else [0, second]
        return hidden[:, places]

    def change_logits(self, state: VisualState) -> Tensor | None:
        """(pairs, change types), "none" first, from [IMG1] and [IMG2] after `F_cross`; None without the head."""
        # Pictures do not see words where a sentence is made, so this is what they are beside any sentence.
        return None if self.change_head is None else self.judge_change(self.captioner(state.tokens))

    def judge_change(self, hidden: Tensor) -> Tensor:
        """The change head on outputs of `F_cross` that begin with both pictures."""
        assert self.change_head is not None
        logits: Tensor = self.change_head(self.image_outputs(hidden).flatten(1))
        return logits

    def heatmap(self, state: VisualState) -> Tensor:
        """(pairs, 2, rows, columns) in [0, 1]: where [IMG1] and [IMG2] look in the last cross-modal layer."""
        second = state.tokens.shape[1] // 2
        weights = self.captioner.attention(state.tokens, None, [0, second]).mean(dim=1)  # (pairs, tokens)
        heat = weights.view(-1, 2, second)[:, :, 1:].reshape(-1, 2, *state.grid)
        return (heat / heat.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)).clamp(0, 1)

    # Pictures and words together

    def read_together(
        self, state: VisualState, ids: Tensor, mask: Tensor, masked: Tensor | None = None, *, causal: bool = False
    ) -> Tensor:
        """Outputs of `F_cross` over pictures, [CLS] and the words `ids` (pairs, words), [MASK] where `masked`.

        Everybody sees everybody; with `causal`, words see pictures and earlier words, pictures see pictures.
        """
        visual = state.tokens.shape[1]
        text = self.captioner.embed_text(self.words, ids, masked)
        seen = words_see_back(visual, text.shape[1], ids.device) if causal else everyone_sees_words(visual, mask)
        hidden: Tensor = self.captioner(torch.cat([state.tokens, text.to(state.tokens.dtype)], dim=1), seen)
        return hidden

    def word_logits(self, hidden: Tensor, words: int) -> Tensor:
        """Scores at the last `words` places of a sequence: (pairs, words, vocabulary)."""
        return self.captioner.scores(hidden[:, -words:], self.words)

    # Captions

    def caption_logits(self, state: VisualState, ids: Tensor) -> Tensor:
        """Scores of the word after each of `ids` (pairs, words), as decoding gives them: (pairs, words, vocabulary)."""
        return self.word_logits(self.read_beside_masks(state, ids), ids.shape[1])

    def read_beside_masks(self, state: VisualState, ids: Tensor) -> Tensor:
        """Outputs over pictures, [CLS], `ids` and a [MASK] after each of `ids`."""
        tokens, seen = self._beside_masks(state, ids)
        hidden: Tensor = self.captioner(tokens, seen)
        return hidden

    def word_attention(self, state: VisualState, ids: Tensor) -> Tensor:
        """Where each word of `ids` (pairs, words; first the begin token) looked when it was predicted.

        (pairs, words - 1, 2, rows, columns): attention of its [MASK] in the last cross-modal layer, mean of heads.
        """
        tokens, seen = self._beside_masks(state, ids[:, :-1])
        words, length, visual = ids.shape[1] - 1, tokens.shape[1], state.tokens.shape[1]
        weights = self.captioner.attention(tokens, seen, list(range(length - words, length)))[..., :visual]
        return weights.reshape(len(ids), words, 2, visual // 2)[..., 1:].reshape(len(ids), words, 2, *state.grid)

    def _beside_masks(self, state: VisualState, ids: Tensor) -> tuple[Tensor, Tensor]:
        text = self.captioner.embed_text(self.words, ids)
        masks = self.captioner.embed_masks(self.words, len(ids), ids.shape[1])
        parts: list[Any] = [state.tokens, text.to(state.tokens.dtype), masks.to(state.tokens.dtype)]
        seen = words_see_back_beside_masks(state.tokens.shape[1], ids.shape[1], ids.device)
        return torch.cat(parts, dim=1), seen

    @torch.inference_mode()
    def generate(self, state: VisualState, options: DecodingOptions) -> Generated:
        """Sentences as token ids."""
        # [CLS], the begin token and a [MASK] after the last word need positions of their own.
        options = search.checked(options, context=len(self.words.positions) - 2)
        steps = MaskSteps(
            self.captioner,
            self.words,
            state.tokens,
            rows_per_pair=search.rows_per_pair(options),
            max_words=options.max_words,
        )
        return search.generate(steps, len(state), self.special, options, TorchArrays(state.tokens.device))
