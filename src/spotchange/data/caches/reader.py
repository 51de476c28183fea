"""Rows of a decoded split as batches: images read in place, one caption each, places of change."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from spotchange.data.caches.flatfile import FlatFile
from spotchange.data.caches.index import UNKNOWN, Numbers, RowIndex
from spotchange.data.caption_ids import CaptionCoder
from spotchange.data.protocols import get_protocol
from spotchange.pairs import CHANGE_TYPES, PairBatch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_IMAGES_AT_ONCE = 512


class PairReader:
    """Gathers any rows of a cache folder (see `cache.py`) into a batch; several threads may do so at once."""

    def __init__(
        self,
        folder: Path,
        *,
        tokenizer: Tokenizer,
        max_words: int,
        grid: tuple[int, int] | None,
        protocol: str,
        pin_memory: bool,
    ) -> None:
        self._index = RowIndex(folder)
        self._images = FlatFile(folder / "pictures.bin")
        self._kept: torch.Tensor | None = None
        self._coder = CaptionCoder(tokenizer, max_words=max_words)
        self._grid = grid if self._index.has_masks else None
        self._protocol = get_protocol(protocol)
        self._pin_memory = pin_memory
        self.change_types = self._index.change_types
        self.units = pair_up(self._index)

    def __len__(self) -> int:
        """Rows in the index, usable or not."""
        return len(self._index)

    @property
    def image_bytes(self) -> int:
        """Size of all decoded images."""
        return len(self._images)

    def keep_images_on(self, device: torch.device) -> None:
        """Read every image once; from then on batches are gathered on the device."""
        shape = (3, self._index.height, self._index.width)
        kept = torch.empty(self.image_bytes // math.prod(shape), *shape, dtype=torch.uint8, device=device)
        for numbers in np.array_split(np.arange(len(kept)), -(-len(kept) // _IMAGES_AT_ONCE)):
            kept[int(numbers[0]) : int(numbers[-1]) + 1] = self._read_images(numbers).to(device)
        self._kept = kept

    def references(self, row: int) -> list[str]:
        """What a prediction for a row is scored against, as the protocol says."""
        return self._protocol.references(self._index.captions(row))

    def read(self, rows: Numbers, draws: Numbers) -> PairBatch:
        """The rows with these numbers; a row's draw decides which of its captions is taken."""
        texts, places = [], []
        for row, draw in zip(rows.tolist(), draws.tolist(), strict=True):
            references = self.references(row)
            places.append((row, draw % len(references)))
            texts.append(references[places[-1][1]])
        ids, mask = self._coder.ids(texts)
        return PairBatch(
            before=self._read_images(self._index.column("before", rows)),
            after=self._read_images(self._index.column("after", rows)),
            caption_ids=ids,
            caption_mask=mask,
            change_type=torch.from_numpy(self._index.column("change_type", rows)),
            scene_id=torch.from_numpy(self._index.column("scene", rows)),
            change_mask=torch.from_numpy(self._index.change_mask(rows, self._grid)) if self._grid else None,
            caption_place=torch.tensor(places),
        )

    def _read_images(self, numbers: Numbers) -> torch.Tensor:
        if self._kept is not None:
            return self._kept[torch.from_numpy(numbers).to(self._kept.device)]
        shape = (len(numbers), 3, self._index.height, self._index.width)
        images = torch.empty(shape, dtype=torch.uint8, pin_memory=self._pin_memory)
        for target, number in zip(images.numpy(), numbers, strict=True):
            self._images.read_into(int(number) * target.size, target)
        return images


def pair_up(index: RowIndex) -> Numbers:
    """(units, 2) rows of change and distractor where every scene has exactly these two, else (rows, 1)."""
    scenes, types = index.column("scene"), index.column("change_type")
    unchanged = types == CHANGE_TYPES.index("none")
    order = np.lexsort((unchanged, scenes))  # scene by scene, the change before the distractor
    pairs = order[: len(order) // 2 * 2].reshape(-1, 2)
    if (
        len(order) % 2 == 0
        and (scenes[pairs[:, 0]] == scenes[pairs[:, 1]]).all()
        and len(np.unique(scenes)) == len(pairs)
        and (unchanged[pairs] == [False, True]).all()
        and (types[pairs[:, 0]] != UNKNOWN).all()
    ):
        pairs = pairs[np.argsort(pairs[:, 0])]
        return pairs[np.isin(pairs, index.usable).all(axis=1)]  # a scene stays whole or goes
    return index.usable[:, None]
