"""Batches of a data set on disk, endless, shuffled alike for everyone, and resumable at any pair."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from spotchange.config.sources import Unit
from spotchange.data.caches.images import open_cache
from spotchange.data.caches.index import Numbers
from spotchange.data.caches.reader import PairReader
from spotchange.errors import ConfigError, DataError
from spotchange.pairs import PairBatch
from spotchange.training.sources.memory import fits_on

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_AHEAD = 2  # batches a worker prepares before they are asked for


class DiskSource:
    """Endless batches of one split, from pictures decoded once.

    A *unit* is a pair, or, in a set where every scene has a change and a distractor, these two as rows 2k and
    2k + 1 (`paired`). Every epoch visits all units once, in an order that depends on seed and epoch only; batches
    run on across the border of epochs, so none is cut short and none is left out. One caption a pair is drawn
    anew each epoch; or a unit is visited once for each of its sentences (`unit`). Processes take turns: rank r of w
    gets batches r, r + w and so on.
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
        """Open the split, decoding its pictures first if that was not done before.

        Args:
            data_dir: Folder of the data set.
            split: Which of its splits.
            tokenizer: Puts begin and end tokens around a caption by itself.
            image_size: Side of the square pictures, or (height, width).
            batch: Pairs a batch of this process; even where the set is paired.
            seed: Of order and captions.
            rank: This process among `world_size`.
            world_size: Processes that share the data.
            shuffle: Without it, rows come in the order of the file and captions in turn.
            workers: Threads that decode, and prepare batches ahead; 0: no thread besides the caller's.
            cache_dir: Where decoded pictures lie; default: beside the data set.
            max_words: Tokens of a caption, begin and end included; longer ones are cut before the end token.
            grid: Rows and columns of patches; with it, batches hold `change_mask` where the set tells it for all pairs.
            protocol: Decides what a caption is, see `protocols`.
            unit: What an epoch runs over, see `config.sources`.
            skip_bad: Leave out what cannot be read instead of refusing the set.
            device: Where batches are put.
            advance: Called with pictures done and pictures in all while they are decoded.
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
        self.units = self._reader.units.reshape(-1, 1) if unit == "sentences" else self._reader.units
        self.paired = self.units.shape[1] == 2
        self.shares_before = False  # rows of a scene name the same file in published sets, which nobody promises
        if not len(self.units):
            raise DataError(f"{data_dir} has no readable pair in '{split}'")
        if batch < 1 or batch % self.units.shape[1]:
            raise ConfigError(f"a batch of {batch} pairs does not hold change and distractor pairs in equal number")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank {rank} is not one of {world_size}")
        self._visits: Numbers = self.units
        self._sentence: Numbers | None = None
        if unit != "pairs":
            self._visits, self._sentence = self._every_sentence()
        if shuffle and fits_on(self._device, self._reader.picture_bytes):  # many epochs lie ahead
            self._reader.keep_pictures_on(self._device)
        self._units_per_batch = batch // self.units.shape[1]
        self._rank, self._world_size, self._seed, self._shuffle = rank, world_size, seed, shuffle
        self._plans: dict[int, tuple[Numbers, Numbers]] = {}
        self._position = 0  # units that all processes together have been given
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
        return self._position / len(self._visits)

    def next_batch(self) -> PairBatch:
        """The next batch of this process."""
        step = self._units_per_batch * self._world_size
        batch = self._ahead.pop(self._position).result() if self._position in self._ahead else self._at(self._position)
        self._position += step
        if self._pool is not None:
            for position in range(self._position, self._position + self._depth * step, step):
                if position not in self._ahead:
                    self._ahead[position] = self._pool.submit(self._at, position)
        return self._on_device(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands; holds for any batch size and any number of processes."""
        return {"position": self._position, "seed": self._seed, "units": len(self._visits)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        mine = self.state_dict()
        for name in ("seed", "units"):
            if state[name] != mine[name]:
                raise DataError(f"cannot resume: the data had {name} {state[name]}, now it has {mine[name]}")
        self._position = int(state["position"])
        self._forget_ahead()

    def one_pass(self, pairs: int | None = None) -> Iterator[tuple[Numbers, PairBatch]]:
        """Every pair once, in the order of the file, with the rows' numbers; the last batch may be smaller.

        Independent of the endless batches; a caption is the row's first. `references(row)` gives all.
        """
        rows = self.units.reshape(-1)[:pairs]
        size = self._units_per_batch * self.units.shape[1]
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

    def _forget_ahead(self) -> None:
        for future in self._ahead.values():
            future.cancel()
        self._ahead.clear()

    def _at(self, position: int) -> PairBatch:
        places = position + self._rank * self._units_per_batch + np.arange(self._units_per_batch)
        rows, draws = [], []
        for epoch, place in zip(*np.divmod(places, len(self._visits)), strict=True):
            order, draw = self._plan(int(epoch))
            chosen = self._visits[order[place]]
            drawn = draw[chosen]
            if self._sentence is not None:
                drawn[0] = self._sentence[order[place]]
            rows.append(chosen)
            draws.append(drawn)
        return self._reader.read(np.concatenate(rows), np.concatenate(draws))

    def _plan(self, epoch: int) -> tuple[Numbers, Numbers]:
        """The order of units in an epoch, and for every row a number that decides which caption is taken."""
        plan = self._plans.get(epoch)
        if plan is None:
            units, rows = len(self._visits), len(self._reader)
            if self._shuffle:
                chance = np.random.default_rng([self._seed, epoch])
                plan = chance.permutation(units), chance.integers(2**31, size=rows)
            else:
                plan = np.arange(units), np.full(rows, epoch)
            # Batches prepared ahead may lie on both sides of an epoch's border: keep the neighbours.
            self._plans = {old: kept for old, kept in self._plans.items() if abs(old - epoch) <= 1} | {epoch: plan}
        return plan

    def _every_sentence(self) -> tuple[Numbers, Numbers]:
        """Units as often as their first pair has sentences, and which of these is meant."""
        counts = np.array([len(self.references(int(row))) for row in self.units[:, 0]])
        return np.repeat(self.units, counts, axis=0), np.concatenate([np.arange(count) for count in counts])

    def _on_device(self, batch: PairBatch) -> PairBatch:
        return batch if self._device.type == "cpu" else batch.to(self._device)
