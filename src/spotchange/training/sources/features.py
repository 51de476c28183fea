"""Batches of grid features from a feature folder: gathered on the device, endless, shuffled alike for everyone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.sources import Unit
from spotchange.data.caches.features import FEATURES, FeatureFacts, FeatureRow, read_facts, read_feature_rows
from spotchange.data.caches.index import Numbers
from spotchange.errors import ConfigError, DataError
from spotchange.pairs import PairBatch
from spotchange.training.sources.memory import fits_on
from spotchange.training.sources.tasks import CLASSES, TaskBatch

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CAPTIONS_AT_ONCE = 20_000


class FeatureStore:
    """The features of a folder, on the device where there is room, else mapped from disk."""

    def __init__(self, folder: str, *, backbone: str, device: torch.device) -> None:
        self.facts: FeatureFacts = read_facts(folder, backbone=backbone)
        self.rows: list[FeatureRow] = list(read_feature_rows(folder))
        self.device = device
        shape = (self.facts.pictures, *self.facts.picture_shape)
        mapped = torch.from_file(str(Path(folder) / FEATURES), size=int(np.prod(shape)), dtype=torch.float16)
        self._features = mapped.view(shape)
        if fits_on(device, mapped.nbytes):
            self._features = self._features.to(device)

    def pictures(self, numbers: Tensor) -> Tensor:
        """float16 (numbers, cells, channels) on the device."""
        return self._features[numbers.to(self._features.device)].to(self.device, non_blocking=True)


class Turns:
    """Which units of a set come when: every epoch all of them once, in an order of seed and epoch only."""

    def __init__(self, units: int, per_batch: int, *, seed: int, rank: int, world_size: int) -> None:
        self.units, self.per_batch, self.seed = units, per_batch, seed
        self.rank, self.world_size = rank, world_size
        self.position = 0
        self._plans: dict[int, Any] = {}

    def take(self) -> tuple[Any, Any]:
        """Units of the next batch, and for each a large random number."""
        places = self.position + self.rank * self.per_batch + np.arange(self.per_batch)
        self.position += self.per_batch * self.world_size
        units, draws = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
        for epoch in np.unique(places // self.units):
            order, draw = self._plan(int(epoch))
            here = places // self.units == epoch
            units[here], draws[here] = order[places[here] % self.units], draw[places[here] % self.units]
        return units, draws

    def _plan(self, epoch: int) -> tuple[Any, Any]:
        plan: tuple[Any, Any] | None = self._plans.get(epoch)
        if plan is None:
            chance = np.random.default_rng([self.seed, epoch])
            plan = chance.permutation(self.units), chance.integers(2**31, size=self.units)
            self._plans = {old: kept for old, kept in self._plans.items() if abs(old - epoch) <= 1} | {epoch: plan}
        return plan


class FeatureBatches:
    """Pairs, or single pictures, with one of their captions; everything is gathered on the device."""

    def __init__(
        self,
        store: FeatureStore,
        *,
        tokenizer: Tokenizer,
        max_words: int,
        pad: int,
        batch: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        unit: Unit = "pairs",
    ) -> None:
        self.store, self.shares_before = store, False
        self.paired = store.facts.paired and unit != "sentences"
        self._rows_per_unit = 2 if self.paired else 1
        if batch % self._rows_per_unit:
            raise ConfigError(f"scenes give a change and a distractor each: {batch} pairs a batch are not even")
        self.rows = store.rows
        self.captions = [caption for row in self.rows for caption in row.captions]
        device = store.device
        counts = np.array([len(row.captions) for row in self.rows])
        if not counts.all():
            raise DataError("the feature folder has rows without captions", hint="they can serve for classes only")
        self._counts, self._starts = counts, np.cumsum(counts) - counts
        self.caption_ids, self.caption_mask = encode_captions(tokenizer, self.captions, max_words=max_words, pad=pad)
        self.caption_ids, self.caption_mask = self.caption_ids.to(device), self.caption_mask.to(device)
        columns = [(row.before, row.after, row.change_type, row.scene) for row in self.rows]
        self._columns = torch.tensor(columns, device=device).T.contiguous()  # (4, rows)
        self._change_mask = self._places().to(device) if all(row.changed is not None for row in self.rows) else None
        firsts = np.arange(0, len(self.rows), self._rows_per_unit)
        visits = np.ones_like(firsts) if unit == "pairs" else counts[firsts]
        self._first = np.repeat(firsts, visits)  # rows that begin the units of an epoch
        self._sentence = None if unit == "pairs" else np.concatenate([np.arange(count) for count in visits])
        self._turns = Turns(
            len(self._first),
            batch // self._rows_per_unit,
            seed=seed,
            rank=rank,
            world_size=world_size,
        )
        self.last_captions: Tensor | None = None  # numbers of the captions in the batch given last

    def next_batch(self) -> PairBatch:
        """The next rows, with one caption each."""
        units, draws = self._turns.take()
        rows = (self._first[units, None] + np.arange(self._rows_per_unit)).ravel()
        draws = np.repeat(draws, self._rows_per_unit)
        if self._sentence is not None:
            draws[:: self._rows_per_unit] = self._sentence[units]
        return self._batch(rows, draws)

    def one_pass(self, pairs: int, at_once: int) -> Iterator[tuple[Numbers, PairBatch]]:
        """The first pairs once, in order, with the rows' numbers and each with its first caption."""
        for first in range(0, min(pairs, len(self.rows)), at_once):
            rows = np.arange(first, min(first + at_once, pairs, len(self.rows)))
            yield rows, self._batch(rows, np.zeros_like(rows))

    def _batch(self, rows: Numbers, draws: Numbers) -> PairBatch:
        captions = torch.from_numpy(self._starts[rows] + draws % self._counts[rows]).to(self.store.device)
        chosen = torch.from_numpy(rows).to(self.store.device)
        before, after, change_type, scene = self._columns[:, chosen]
        self.last_captions = captions
        return PairBatch(
            before=self.store.pictures(before),
            after=self.store.pictures(after),
            caption_ids=self.caption_ids[captions],
            caption_mask=self.caption_mask[captions],
            change_type=change_type,
            scene_id=scene,
            change_mask=None if self._change_mask is None else self._change_mask[chosen],
        )

    def _places(self) -> Tensor:
        """(rows, 2, cells): which cells the change touches."""
        mask = torch.zeros(len(self.rows), 2, self.store.facts.picture_shape[0], dtype=torch.bool)
        for row, target in zip(self.rows, mask, strict=True):
            for cells, side in zip(row.changed or (), target, strict=True):
                side[list(cells)] = True
        return mask

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands."""
        return {"position": self._turns.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._turns.position = state["position"]


class ClassBatches:
    """Pairs of pictures with classes, half of them of one class."""

    paired = False
    shares_before = False

    def __init__(
        self,
        read: Any,
        class_ids: list[int],
        *,
        classes: int | None,
        batch: int,
        seed: int,
        device: torch.device,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """Draw from pictures whose classes are known.

        Args:
            read: From numbers of rows (a tensor) to pictures or features on the device.
            class_ids: Class of every row.
            classes: How many the model's heads know.
            batch: Pairs of this process.
            seed: Of the draw.
            device: Where batches are put.
            rank: This process among `world_size`.
            world_size: Processes that share the data.
        """
        known = sorted(set(class_ids))
        if len(known) < 2:
            raise DataError("classification data need at least two classes, and there is only one")
        if classes is None:
            raise ConfigError("the data have classes: set model.heads.classes to how many")
        if known[0] < 0 or known[-1] >= classes:
            raise ConfigError(f"a class is numbered {known[-1]}, but model.heads.classes is {classes}")
        self._read, self._batch, self._device = read, batch, device
        self._classes = np.array(class_ids)
        self._members = {each: np.flatnonzero(self._classes == each) for each in known}
        self._seed, self._rank, self._world_size, self._number = seed, rank, world_size, 0

    def next_batch(self) -> TaskBatch:
        """Fresh pairs; no caption belongs to them."""
        chance = np.random.default_rng([self._seed, self._number * self._world_size + self._rank])
        self._number += 1
        first = chance.integers(len(self._classes), size=self._batch)
        partner = [chance.choice(self._members[self._classes[row]]) for row in first]
        second = np.where(
            np.arange(self._batch) % 2 == 0, partner, chance.integers(len(self._classes), size=self._batch)
        )
        class_ids = torch.from_numpy(np.stack([self._classes[first], self._classes[second]], axis=1))
        nothing = torch.zeros(self._batch, 1, dtype=torch.long, device=self._device)
        pairs = PairBatch(
            before=self._read(torch.from_numpy(first)),
            after=self._read(torch.from_numpy(second)),
            caption_ids=nothing,
            caption_mask=nothing.bool(),
            change_type=nothing[:, 0] - 1,
            scene_id=nothing[:, 0] - 1,
        )
        return TaskBatch(task=CLASSES, pairs=pairs, class_ids=class_ids.to(self._device))

    def state_dict(self) -> dict[str, Any]:
        """How many batches were drawn."""
        return {"number": self._number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._number = state["number"]


def encode_captions(tokenizer: Tokenizer, captions: list[str], *, max_words: int, pad: int) -> tuple[Tensor, Tensor]:
    """Ids and mask (captions, words); what is longer than `max_words` is cut before its end token."""
    number = {caption: place for place, caption in enumerate(dict.fromkeys(captions))}  # "no change" comes often
    different, cut = list(number), list[list[int]]()
    for first in range(0, len(different), _CAPTIONS_AT_ONCE):  # an encoding holds far more than its ids
        for encoded in tokenizer.encode_batch(different[first : first + _CAPTIONS_AT_ONCE]):
            words = encoded.ids
            cut.append(words if len(words) <= max_words else [*words[: max_words - 1], words[-1]])
    mask = np.arange(max_words) < np.array([len(words) for words in cut])[:, None]
    ids = np.full(mask.shape, pad, dtype=np.int64)
    ids[mask] = [word for words in cut for word in words]
    places = [number[caption] for caption in captions]
    return torch.from_numpy(ids[places]), torch.from_numpy(mask[places])
