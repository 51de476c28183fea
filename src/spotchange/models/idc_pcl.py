"""IDC-PCL: grid features, an image difference encoder, and one transformer over both images and the words.

Pre-training reads images and text together (`read_together`); captions come from appending [MASK] and predicting it.
"""

from __future__ import annotations

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
from spotchange.models.pcl_heads import CellHead, ClassHeads
from spotchange.models.pcl_tokens import CLS, IMG1, IMG2, PclTokens


class IdcPcl(nn.Module):
    """A `CaptioningModel`.

    `encoder` gives the cells of both images (pairs, 2, cells, channels); all else learns on top of it. The last
    three heads are pre-training's.
    """

    def __init__(
        self,
        *,
        image_size: tuple[int, int],
        grid: tuple[int, int],
        encoder: nn.Module,
        standard: StandardCells | None,
        words: PclTokens,
        difference: DifferenceEncoder,
        captioner: CrossModalTransformer,
        special: search.SpecialIds,
        see_padding: bool,
        change_head: nn.Module | None,
        cell_head: CellHead | None = None,
        matching_head: nn.Module | None = None,
        class_heads: ClassHeads | None = None,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.grid = grid
        self.special = special
        self.see_padding = see_padding
        self.encoder = encoder
        self.standard = standard
        self.words = words
        self.difference = difference
        self.captioner = captioner
        self.change_head = change_head
        self.cell_head = cell_head
        self.matching_head = matching_head
        self.class_heads = class_heads

    # What the images say

    def see(self, before: Tensor, after: Tensor) -> Tensor:
        """The grid features of both images, ready for `encode_cells`: (pairs, 2, cells, channels)."""
        return self.prepared(self.encoder(before, after))

    def prepared(self, cells: Tensor) -> Tensor:
        """Grid features as the model reads them: as they are, or standardised."""
        return cells if self.standard is None else self.standard(cells)

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """Both images (pairs, 3, height, width), preprocessed."""
        return self.encode_cells(self.see(before, after))

    def encode_cells(self, cells: Tensor) -> VisualState:
        """Grid features (pairs, images, cells, channels) of one or two images."""
        tokens: Tensor = self.difference(self._image_marks(cells), self.words.of_cells(cells))
        count = cells.shape[2]
        marks, first = tokens[:, [0, 1 + count]], tokens[:, 1 : 1 + count]
        # Of one image alone nobody asks for the second's cells.
        patches = torch.stack([first, tokens[:, 2 + count :] if cells.shape[1] == 2 else first], dim=1)
        features = torch.cat([marks.mean(dim=1), patches.mean(dim=(1, 2))], dim=-1)
        return VisualState(tokens=tokens, grid=self.grid, features=features, extras={"inter": patches})

    def images_alone(self, cells: Tensor) -> Tensor:
        """[IMG1] and [IMG2] after `F_sing`, where no image knows of the other: (pairs, 2, width)."""
        return self.difference.alone(self._image_marks(cells), self.words.of_cells(cells))[:, :, 0]

    def _image_marks(self, cells: Tensor) -> Tensor:
        return self.words.marks(len(cells), [IMG1, IMG2])

    def image_outputs(self, hidden: Tensor) -> Tensor:
        """[IMG1] and [IMG2] among outputs that begin with images: (pairs, 2, width)."""
        return hidden[:, [0, 1 + self.grid[0] * self.grid[1]]]

    def change_logits(self, state: VisualState) -> Tensor | None:
        """(pairs, change types), "none" first, from [IMG1] and [IMG2] after `F_cross`; None without the head."""
        # Images do not see words where a sentence is made, so this is what they are beside any sentence.
        return None if self.change_head is None else self.verify_change(self.captioner(state.tokens))

    def verify_change(self, hidden: Tensor) -> Tensor:
        """The change head on outputs of `F_cross` that begin with both images."""
        assert self.change_head is not None
        logits: Tensor = self.change_head(self.image_outputs(hidden).flatten(1))
        return logits

    def heatmap(self, state: VisualState) -> Tensor:
        """(pairs, 2, rows, columns) in [0, 1]: where [IMG1] and [IMG2] look in the last cross-modal layer."""
        second = state.tokens.shape[1] // 2
        weights = self.captioner.attention(state.tokens, None, [0, second]).mean(dim=1)  # (pairs, tokens)
        heat = weights.view(-1, 2, second)[:, :, 1:].reshape(-1, 2, *state.grid)
        return (heat / heat.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)).clamp(0, 1)

    # Images and words together

    def read_together(self, state: VisualState, ids: Tensor, mask: Tensor) -> Tensor:
        """Outputs of `F_cross` over images, [CLS] and the words `ids` (pairs, words): everybody sees everybody.

        Padding is seen too, as published, unless `see_padding` is off; `mask` is True on words.
        """
        visual = state.tokens.shape[1]
        first, text = self.words.marks(len(ids), [CLS]), self.words.of_words(ids)
        seen = None if self.see_padding else everyone_sees_words(visual, mask)
        hidden: Tensor = self.captioner(_joined(state.tokens, first, text), seen)
        return hidden

    def read_causally(self, state: VisualState, ids: Tensor) -> Tensor:
        """Outputs over images and words, without [CLS]: words see images and earlier words, images images."""
        seen = words_see_back(state.tokens.shape[1], ids.shape[1], ids.device)
        hidden: Tensor = self.captioner(_joined(state.tokens, self.words.of_words(ids)), seen)
        return hidden

    def word_logits(self, hidden: Tensor, words: int) -> Tensor:
        """Scores at the last `words` places of a sequence: (pairs, words, vocabulary)."""
        logits: Tensor = self.captioner.predict(hidden[:, -words:])
        return logits

    def guess_cells(self, outputs: Tensor) -> Tensor:
        """Grid features (..., channels) from outputs of `F_cross` (..., width)."""
        assert self.cell_head is not None
        guesses: Tensor = self.cell_head(outputs, self.words.cells.weight)
        return guesses

    # Captions

    def caption_logits(self, state: VisualState, ids: Tensor) -> Tensor:
        """Scores of the word after each of `ids` (pairs, words), as decoding gives them: (pairs, words, vocabulary)."""
        return self.word_logits(self.read_beside_masks(state, ids), ids.shape[1])

    def read_beside_masks(self, state: VisualState, ids: Tensor) -> Tensor:
        """Outputs over images, `ids` and a [MASK] after each of `ids`."""
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
        masks = self.words.masks_after(len(ids), ids.shape[1])
        seen = words_see_back_beside_masks(state.tokens.shape[1], ids.shape[1], ids.device)
        return _joined(state.tokens, self.words.of_words(ids), masks), seen

    @torch.inference_mode()
    def generate(self, state: VisualState, options: DecodingOptions) -> Generated:
        """Sentences as token ids."""
        # The begin token, and a [MASK] after the last word, need positions too.
        options = search.checked(options, context=len(self.words.positions) - 1)
        steps = MaskSteps(
            self.captioner,
            self.words,
            state.tokens,
            rows_per_pair=search.rows_per_pair(options),
            max_words=options.max_words,
        )
        return search.generate(steps, len(state), self.special, options, TorchArrays(state.tokens.device))


def _joined(visual: Tensor, *text: Tensor) -> Tensor:
    return torch.cat([visual, *(part.to(visual.dtype) for part in text)], dim=1)
