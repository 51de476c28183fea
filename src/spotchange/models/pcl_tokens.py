"""IDC-PCL's tokens: cells of both images, words, and one class vector that marks [IMG1], [IMG2] and [CLS].

What a token is, is told by a row of the type table; where it stands, by a fixed table of sines.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.models.layers import draw
from spotchange.models.pcl_blocks import UnbiasedNorm

IMG1, CELLS_1, IMG2, CELLS_2, CLS, TEXT = range(1, 7)  # rows of the type table; the published row 0 is unused
_TYPES = 7
_ROWS = 200  # of the published position table


def sinusoids(rows: int, width: int) -> Tensor:
    """(rows, width): column c is sine (even c) or cosine (odd c) of p / 10000^(2c / width), as published.

    The usual table has c where this one has 2c, so that a sine and a cosine share a frequency; here none do.
    """
    # On the CPU even where models are built without storage: nobody stores this table.
    place = torch.arange(rows, dtype=torch.float64, device="cpu")[:, None]
    column = torch.arange(width, dtype=torch.float64, device="cpu")
    angle = place / 10000.0 ** (2 * column / width)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).float()


class PclTokens(nn.Module):
    """Grid features and word ids as the tokens that all of IDC-PCL's layers read."""

    positions: Tensor

    def __init__(
        self,
        *,
        channels: int,
        cells: int,
        vocabulary: int,
        context: int,
        width: int,
        dropout: float,
        class_id: int,
        mask_id: int,
    ) -> None:
        super().__init__()
        self.width, self.class_id, self.mask_id = width, class_id, mask_id
        self.cells = nn.Linear(channels, width)
        # Not nn.Embedding(...): its own random start costs seconds where a model is built without storage.
        self.words = nn.Embedding.from_pretrained(torch.empty(vocabulary, width), freeze=False)
        self.types = nn.Parameter(torch.empty(_TYPES, width))
        self.norm = UnbiasedNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoids(max(_ROWS, cells, context + 1), width), persistent=False)
        draw(self.words.weight, std=1.0)
        draw(self.types, std=1.0)

    @property
    def channels(self) -> int:
        """Width of a grid feature."""
        return self.cells.in_features

    def of_cells(self, cells: Tensor) -> Tensor:
        """(pairs, images, cells, channels), one or two images, to the same with `width` channels."""
        images, count = cells.shape[1:3]
        kinds = self.types[[CELLS_1, CELLS_2][:images], None]
        return self._finished(torch.sigmoid(self.cells(cells)) + kinds + self.positions[:count])

    def marks(self, rows: int, kinds: list[int]) -> Tensor:
        """The class vector once for each of `kinds`: (rows, kinds, width)."""
        vectors = self.words.weight[self.class_id] + self.types[kinds]
        return self._finished(vectors.expand(rows, -1, -1))

    def of_words(self, ids: Tensor, first: int = 0) -> Tensor:
        """Words (rows, words) that stand at places `first` and after: (rows, words, width)."""
        return self._of_vectors(self.words(ids), self.positions[first : first + ids.shape[1]])

    def of_words_at(self, ids: Tensor, places: Tensor) -> Tensor:
        """The same at places that are a tensor (words,), as an exported graph has them."""
        return self._of_vectors(self.words(ids), self.positions.index_select(0, places))

    def masks_after(self, rows: int, words: int) -> Tensor:
        """A [MASK] at the place after each of `words` words: (rows, words, width)."""
        mask = self.words.weight[self.mask_id].expand(rows, words, -1)
        return self._of_vectors(mask, self.positions[1 : 1 + words])

    def _of_vectors(self, vectors: Tensor, positions: Tensor) -> Tensor:
        return self._finished(vectors * self.width**0.5 + self.types[TEXT] + positions)

    def _finished(self, tokens: Tensor) -> Tensor:
        finished: Tensor = self.dropout(self.norm(tokens))
        return finished
