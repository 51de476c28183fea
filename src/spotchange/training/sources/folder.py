"""A data set on disk as a source: images decoded once, shuffled alike for everyone, resumable at any pair."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from spotchange.config.sources import Unit
from spotchange.data import list_splits, read_rows
from spotchange.data.caches.images import open_cache
from spotchange.data.caches.index import Numbers, RowIndex
from spotchange.data.caches.reader import PairReader
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.data.protocols import get_protocol
from spotchange.errors import ConfigError, DataError
from spotchange.pairs import PairBatch
from spotchange.training.sources.combined import ChangedBatches
from spotchange.training.sources.interface import HeldOut, NegativePlan, Negatives, RunContext
from spotchange.training.sources.memory import fits_on
from spotchange.training.sources.negatives import WrittenNegatives
from spotchange.training.sources.order import EpochOrder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_AHEAD = 2  # batches a worker prepares before they are asked for


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """A split of a data set, decoded once into a memory-mapped cache."""

    path: str
    split: str
    held_out_split: str
    """Whose first pairs validation looks at."""
    protocol: str = "pairs"
    cache: str | None = None
    unit: Unit = "pairs"
    """What an epoch runs over."""
    workers: int = 2

    def captions(self) -> Iterator[str]:
        for row in read_rows(self.path, self.split, check_files=False):
            yield from row.captions

    def batches(self, run: RunContext, pairs: int) -> ChangedBatches:
        return ChangedBatches(self._open(run, self.split, pairs), run.known_types)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        chosen = self.held_out_split if split == "val" else split
        if chosen not in (*list_splits(self.path), self.split):
            return None
        source = self._open(run, chosen, at_once, once=True)
        batches, references = [], []
        for rows, batch in source.one_pass(pairs):
            batches.append(run.known_types(batch))
            references += [source.references(int(row)) for row in rows]
        source.close()
        return HeldOut(batches=batches, references=references)

    def negatives(self, run: RunContext, plan: NegativePlan, *, mirrored: bool = False) -> Negatives:
        rows = [row.captions for row in read_rows(self.path, self.split, check_files=False)]
        every = [caption for captions in rows for caption in captions]
        writer = NegativeWriter(every, counts=plan.counts, denials=plan.denials)
        if mirrored:
            return WrittenNegatives(writer, run.coder(), truths=rows)
        height, width = run.image_size
        index = RowIndex(open_cache(self.path, self.split, height=height, width=width, cache_dir=self.cache))
        references = get_protocol(self.protocol).references
        return WrittenNegatives(
            writer, run.coder(), truths=rows, caption_at=lambda row, place: references(index.captions(row))[place]
        )

    def _open(self, run: RunContext, split: str, pairs: int, *, once: bool = False) -> FolderBatches:
        """In another order every epoch, this process's part; or, to be read once, all as they stand."""
        return FolderBatches(
            self.path,
            split,
            tokenizer=run.start.tokenizer,
            image_size=run.image_size,
            batch=pairs,
            seed=run.seed,
            rank=0 if once else run.rank,
            world_size=1 if once else run.processes,
            shuffle=not once,
            workers=self.workers,
            cache_dir=self.cache,
            max_words=run.max_words,
            grid=run.grid,
            protocol=self.protocol,
            unit="pairs" if once else self.unit,
            device=run.device,
        )


class FolderBatches:
    """Endless batches of one split, from images decoded once.

    A *unit* is a pair, or, in a set where every scene has a change and a distractor, these two as rows 2k and
    2k + 1 (`paired`). Units come in the order of `EpochOrder`; one caption per pair is drawn anew each epoch, or a
    unit is visited once for each of its sentences (`unit`).
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        split: str = "train",
        *,
        tokenizer: Tokenizer,
        image_size: int | tuple[int, int],
        batch: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        workers: int = 2,
        cache_dir: str | os.PathLike[str] | None = None,
        max_words: int = 32,
        grid: tuple[int, int] | None = None,
        protocol: str = "pairs",
        unit: Unit = "pairs",
        skip_bad: bool = False,
        device: str | torch.device = "cpu",
        advance: Callable[[int, int], None] | None = None,
    ) -> None:
        """Open the split, decoding its images first if that was not done before.

        Args:
            data_dir: Folder of the data set.
            split: Which of its splits.
            tokenizer: Puts begin and end tokens around a caption by itself.
            image_size: Side of the square images, or (height, width).
            batch: Pairs a batch of this process; even where the set is paired.
            seed: Of order and captions.
            rank: This process among `world_size`.
            world_size: Processes that share the data.
            shuffle: Without it, rows come in the order of the file and captions in turn.
            workers: Threads that decode, and prepare batches ahead; 0: no thread besides the caller's.
            cache_dir: Where decoded images lie; default: beside the data set.
            max_words: Tokens of a caption, begin and end included; longer ones are cut before the end token.
            grid: Rows and columns of patches; with it, batches hold `change_mask` where the set tells it for all pairs.
            protocol: Decides what a caption is, see `protocols`.
            unit: What an epoch runs over, see `config.sources`.
            skip_bad: Leave out what cannot be read instead of refusing the set.
            device: Where batches are put.
            advance: Called with images done and images in all while they are decoded.
        """
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        folder = open_cache(
            data_dir,
            split,
            height=height,
            width=width,
            cache_dir=cache_dir,
            workers=max(1, workers),
            skip_bad=skip_bad,
            advance=advance,
        )
        self._device = torch.device(device)
        pin_memory = self._device.type == "cuda"
        self._reader = PairReader(
            folder, tokenizer=tokenizer, max_words=max_words, grid=grid, protocol=protocol, pin_memory=pin_memory
        )
        self.change_types = self._reader.change_types
        self.shares_before = False  # rows of a scene name the same file in published sets, which nobody promises
        if not len(self._reader.units):
            raise DataError(f"{data_dir} has no readable pair in '{split}'")
        self._choose_units(unit, batch)
        self._order = EpochOrder(
            len(self._visits),
            batch // self.units.shape[1],
            seed=seed,
            rank=rank,
            processes=world_size,
            draws=len(self._reader),
            shuffle=shuffle,
        )
        if shuffle and fits_on(self._device, self._reader.image_bytes):  # many epochs lie ahead
            self._reader.keep_images_on(self._device)
        self._pool = ThreadPoolExecutor(workers) if workers else None
        self._ahead: dict[int, Future[PairBatch]] = {}
        self._depth = _AHEAD * workers

    def __len__(self) -> int:
        """Pairs in the split."""
        return int(self.units.size)

    def __iter__(self) -> Iterator[PairBatch]:
        while True:
            yield self.next_batch()

    @property
    def epoch(self) -> float:
        """Epochs given so far."""
        return self._order.position / len(self._visits)

    def next_batch(self) -> PairBatch:
        """The next batch of this process."""
        position, step = self._order.position, self._order.step
        batch = self._ahead.pop(position).result() if position in self._ahead else self._at(position)
        self._order.position = position + step
        if self._pool is not None:
            for ahead in range(position + step, position + step + self._depth * step, step):
                if ahead not in self._ahead:
                    self._ahead[ahead] = self._pool.submit(self._at, ahead)
        return self._on_device(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands; holds for any batch size and any number of processes."""
        return self._order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        self._order.load_state_dict(state)
        self._forget_ahead()

    def one_pass(self, pairs: int | None = None) -> Iterator[tuple[Numbers, PairBatch]]:
        """Every pair once, in the order of the file, with the rows' numbers; the last batch may be smaller.

        Independent of the endless batches; a caption is the row's first. `references(row)` gives all.
        """
        rows = self.units.reshape(-1)[:pairs]
        size = self._order.per_batch * self.units.shape[1]
        for start in range(0, len(rows), size):
            chosen = rows[start : start + size]
            yield chosen, self._on_device(self._reader.read(chosen, np.zeros(len(chosen), dtype=np.int64)))

    def references(self, row: int) -> list[str]:
        """What a prediction for a row is scored against, as the protocol says."""
        return self._reader.references(row)

    def close(self) -> None:
        """Stop the threads."""
        self._forget_ahead()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _choose_units(self, unit: Unit, batch: int) -> None:
        """What an epoch visits: units, or units once for each of their sentences."""
        self.units = self._reader.units.reshape(-1, 1) if unit == "sentences" else self._reader.units
        self.paired = self.units.shape[1] == 2
        if batch < 1 or batch % self.units.shape[1]:
            raise ConfigError(f"a batch of {batch} pairs does not hold change and distractor pairs in equal number")
        self._visits: Numbers = self.units
        self._sentence: Numbers | None = None
        if unit != "pairs":
            self._visits, self._sentence = self._every_sentence()

    def _forget_ahead(self) -> None:
        for future in self._ahead.values():
            future.cancel()
        self._ahead.clear()

    def _at(self, position: int) -> PairBatch:
        rows, draws = [], []
        for stretch in self._order.at(position):
            chosen = self._visits[stretch.units]  # (units, rows per unit)
            drawn = stretch.draws[chosen]
            if self._sentence is not None:
                drawn[:, 0] = self._sentence[stretch.units]
            rows.append(chosen.reshape(-1))
            draws.append(drawn.reshape(-1))
        return self._reader.read(np.concatenate(rows), np.concatenate(draws))

    def _every_sentence(self) -> tuple[Numbers, Numbers]:
        """Units as often as their first pair has sentences, and which of these is meant."""
        counts = np.array([len(self.references(int(row))) for row in self.units[:, 0]])
        return np.repeat(self.units, counts, axis=0), np.concatenate([np.arange(count) for count in counts])

    def _on_device(self, batch: PairBatch) -> PairBatch:
        return batch if self._device.type == "cpu" else batch.to(self._device)
