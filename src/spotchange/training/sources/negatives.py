"""Hard negatives in the model's ids: looked up where they were stored with features, else written and remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.data.caption_ids import CaptionCoder
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.language import says_no_change
from spotchange.pairs import PairBatch

_MOST_REMEMBERED = 200_000  # an endless stream must not fill the memory


class StoredNegatives:
    """All negatives of a set's captions, on the device."""

    def __init__(self, sentences: Sequence[Sequence[str]], first_of_row: Tensor, coder: CaptionCoder) -> None:
        """Encode them.

        Args:
            sentences: The negatives of every caption.
            first_of_row: (rows,) number of each row's first caption, on the device.
            coder: Encodes them.
        """
        ids, mask = coder.ids([sentence for each in sentences for sentence in each])
        shape, device = (-1, len(sentences[0]), ids.shape[1]), first_of_row.device
        self._first, self._ids, self._mask = first_of_row, ids.view(shape).to(device), mask.view(shape).to(device)

    def __call__(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Of the captions that the batch took from the set."""
        assert batch.caption_place is not None
        row, place = batch.caption_place.unbind(dim=1)
        return self._ids[self._first[row] + place], self._mask[self._first[row] + place]


class WrittenNegatives:
    """Negatives written as captions come by, and remembered; with denials, not those of pairs without a change."""

    def __init__(
        self,
        writer: NegativeWriter,
        coder: CaptionCoder,
        *,
        truths: Iterable[Sequence[str]] = (),
        caption_at: Callable[[int, int], str] | None = None,
    ) -> None:
        """Prepare to write.

        Args:
            writer: Knows the captions of the set.
            coder: Encodes what is written.
            truths: For every row, all captions that are true of it.
            caption_at: From a row and a place to the caption as it stands in the set; without it, and where a batch
                does not tell, captions are read from their ids.
        """
        self._writer, self._coder, self._caption_at = writer, coder, caption_at
        self._as_read: dict[str, str] = {}
        self._truths: dict[str, list[str]] = {}
        for captions in truths:
            for caption in captions:
                self._truths.setdefault(self._read(caption), []).extend(captions)
        self._known: dict[str, tuple[Tensor, Tensor]] = {}

    def __call__(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """For every caption of the batch."""
        found = [self._of(caption) for caption in self._captions(batch)]
        device = batch.caption_ids.device
        ids, mask = (torch.stack(parts).to(device) for parts in zip(*found, strict=True))
        # As wide as the batch's own captions, beside which they are read.
        missing = batch.caption_ids.shape[1] - ids.shape[2]
        return F.pad(ids, (0, missing)), F.pad(mask, (0, missing))

    def _captions(self, batch: PairBatch) -> list[str]:
        if self._caption_at is not None and batch.caption_place is not None:
            return [self._read(self._caption_at(row, place)) for row, place in batch.caption_place.tolist()]
        rows = zip(batch.caption_ids.tolist(), batch.caption_mask.sum(dim=1).tolist(), strict=True)
        return [self._coder.text(ids[:length]) for ids, length in rows]

    def _read(self, caption: str) -> str:
        """A sentence that is cut may have lost the word that makes another false: it is taken as it reads."""
        if caption not in self._as_read:
            self._as_read[caption] = self._coder.as_read(caption)
        return self._as_read[caption]

    def _of(self, caption: str) -> tuple[Tensor, Tensor]:
        # With denials others each time, or these few would be known to be false by themselves.
        if self._writer.denials and says_no_change(caption):
            return self._coder.ids(self._writer.write(caption, seed=int(torch.randint(2**31, ()))))
        if caption not in self._known:
            if len(self._known) > _MOST_REMEMBERED:
                self._known.clear()
            written = self._writer.write(caption, truths=self._truths.get(caption, ()))
            self._known[caption] = self._coder.ids(written)
        return self._known[caption]
