"""A feature folder as a source: grid features of a frozen network, gathered on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.sources import Unit
from spotchange.data.caches.features import FACTS, FEATURES, FeatureFacts, FeatureRow, read_facts, read_feature_rows
from spotchange.data.caches.index import Numbers
from spotchange.data.caption_ids import CaptionCoder
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.data.negatives.table import stored_negatives
from spotchange.errors import ConfigError, DataError
from spotchange.locks import only_one_process
from spotchange.models.vision.resnet import frozen_network
from spotchange.pairs import PairBatch
from spotchange.training.sources.generated.live import check_even
from spotchange.training.sources.interface import HeldOut, NegativePlan, Negatives, RunContext
from spotchange.training.sources.memory import fits_on
from spotchange.training.sources.negatives import StoredNegatives, WrittenNegatives
from spotchange.training.sources.order import EpochOrder


@dataclass(frozen=True, kw_only=True)
class FeatureFolder:
    """Grid features of the model's own frozen network, with the rows that use them."""

    path: Path
    unit: Unit
    """What an epoch runs over."""
    holds_out: bool
    """Whether validation may look at its pairs: it was named for that."""
    make: Callable[[Path, RunContext], None] | None = None
    """Makes the folder where it does not exist yet; None: it must be there."""

    def captions(self) -> Iterator[str]:
        """None of a folder that is made from generated scenes, which bring no new words."""
        if self.make is None:
            for row in read_feature_rows(self.path):
                yield from row.captions

    def batches(self, run: RunContext, pairs: int) -> FeatureBatches:
        return FeatureBatches(
            self.store(run),
            run.coder(),
            batch=pairs,
            seed=run.seed,
            rank=run.rank,
            processes=run.processes,
            unit=self.unit,
        )

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        if not self.holds_out or split != "val":
            return None
        source = self.batches(run, at_once)
        batches, references = [], []
        for rows, batch in source.one_pass(pairs, at_once):
            batches.append(run.known_types(batch))
            references += [list(source.rows[row].captions) for row in rows]
        return HeldOut(batches=batches, references=references)

    def negatives(self, run: RunContext, plan: NegativePlan, *, mirrored: bool = False) -> Negatives:
        """Those stored beside the features; mirrored captions have others, written as they come."""
        rows = list(read_feature_rows(self.path))
        if mirrored:
            every = [caption for row in rows for caption in row.captions]
            writer = NegativeWriter(every, counts=plan.counts, denials=plan.denials)
            return WrittenNegatives(writer, run.coder(), truths=(row.captions for row in rows))
        with only_one_process(self.path / ".negatives.lock"):
            sentences = stored_negatives(self.path, rows, plan.counts, denials=plan.denials)
        return StoredNegatives(sentences, first_captions(rows).to(run.device), run.coder())

    def store(self, run: RunContext) -> FeatureStore:
        """The features on disk, if they are of this model's own frozen network."""
        network = frozen_network(run.start.model)
        if network is None:
            raise ConfigError("features from disk need a frozen resnet (model.vision.freeze_backbone)")
        if self.make is not None and not (self.path / FACTS).exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with only_one_process(self.path.with_name(f".{self.path.name}.lock")):
                if not (self.path / FACTS).exists():  # another process may have made them while this one waited
                    self.make(self.path, run)
        made = (self.path / FACTS).stat().st_mtime_ns
        return open_store(self.path, made=made, backbone=network.fingerprint(), device=run.device)


class FeatureStore:
    """The features of a folder, on the device where there is room, else mapped from disk."""

    def __init__(self, folder: Path, *, backbone: str, device: torch.device) -> None:
        self.facts: FeatureFacts = read_facts(folder, backbone=backbone)
        self.rows: list[FeatureRow] = list(read_feature_rows(folder))
        self.device = device
        shape = (self.facts.pictures, *self.facts.image_shape)
        mapped = torch.from_file(str(folder / FEATURES), size=int(np.prod(shape)), dtype=torch.float16)
        self._features = mapped.view(shape)
        if fits_on(device, mapped.nbytes):
            self._features = self._features.to(device)

    def images(self, numbers: Tensor) -> Tensor:
        """float16 (numbers, cells, channels) on the device."""
        return self._features[numbers.to(self._features.device)].to(self.device, non_blocking=True)


@lru_cache(maxsize=1)
def open_store(folder: Path, *, made: int, backbone: str, device: torch.device) -> FeatureStore:
    """The store of a folder `made` at that time; the runs of an ablation's worker share it on the device."""
    return FeatureStore(folder, backbone=backbone, device=device)


class FeatureBatches:
    """Pairs, or single images, with one of their captions; everything is gathered on the device."""

    def __init__(
        self,
        store: FeatureStore,
        coder: CaptionCoder,
        *,
        batch: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        unit: Unit = "pairs",
    ) -> None:
        self.store, self.shares_before = store, False
        self.paired = store.facts.paired and unit != "sentences"
        self._rows_per_unit = 2 if self.paired else 1
        if self.paired:
            check_even(batch)
        self.rows = store.rows
        device = store.device
        counts = np.array([len(row.captions) for row in self.rows])
        if not counts.all():
            raise DataError("the feature folder has rows without captions", hint="they can serve for classes only")
        self._counts, self._first = counts, first_captions(self.rows).to(device)
        ids, mask = coder.ids([caption for row in self.rows for caption in row.captions])
        self.caption_ids, self.caption_mask = ids.to(device), mask.to(device)
        columns = [(row.before, row.after, row.change_type, row.scene) for row in self.rows]
        self._columns = torch.tensor(columns, device=device).T.contiguous()  # (4, rows)
        self._change_mask = self._places().to(device) if all(row.changed is not None for row in self.rows) else None
        firsts = np.arange(0, len(self.rows), self._rows_per_unit)
        visits = np.ones_like(firsts) if unit == "pairs" else counts[firsts]
        self._visits = np.repeat(firsts, visits)  # rows that begin the units of an epoch
        self._sentence = None if unit == "pairs" else np.concatenate([np.arange(count) for count in visits])
        self._order = EpochOrder(
            len(self._visits),
            batch // self._rows_per_unit,
            seed=seed,
            rank=rank,
            processes=processes,
        )

    def next_batch(self) -> PairBatch:
        """The next rows, with one caption each."""
        stretches = self._order.take()
        units = np.concatenate([stretch.units for stretch in stretches])
        draws = np.concatenate([stretch.draws[stretch.places] for stretch in stretches])
        rows = (self._visits[units, None] + np.arange(self._rows_per_unit)).ravel()
        draws = np.repeat(draws, self._rows_per_unit)
        if self._sentence is not None:
            draws[:: self._rows_per_unit] = self._sentence[units]
        return self._batch(rows, draws)

    def one_pass(self, pairs: int, at_once: int, split: str = "val") -> Iterator[tuple[Numbers, PairBatch]]:
        """The first pairs once, in order, with the rows' numbers and each with its first caption."""
        for first in range(0, min(pairs, len(self.rows)), at_once):
            rows = np.arange(first, min(first + at_once, pairs, len(self.rows)))
            yield rows, self._batch(rows, np.zeros_like(rows))

    def _batch(self, rows: Numbers, draws: Numbers) -> PairBatch:
        place = torch.from_numpy(np.stack([rows, draws % self._counts[rows]], axis=1)).to(self.store.device)
        chosen = place[:, 0]
        captions = self._first[chosen] + place[:, 1]
        before, after, change_type, scene = self._columns[:, chosen]
        return PairBatch(
            before=self.store.images(before),
            after=self.store.images(after),
            caption_ids=self.caption_ids[captions],
            caption_mask=self.caption_mask[captions],
            change_type=change_type,
            scene_id=scene,
            change_mask=None if self._change_mask is None else self._change_mask[chosen],
            caption_place=place,
        )

    def _places(self) -> Tensor:
        """(rows, 2, cells): which cells the change touches."""
        mask = torch.zeros(len(self.rows), 2, self.store.facts.image_shape[0], dtype=torch.bool)
        for row, target in zip(self.rows, mask, strict=True):
            for cells, side in zip(row.changed or (), target, strict=True):
                side[list(cells)] = True
        return mask

    def state_dict(self) -> dict[str, Any]:
        """Where the source stands."""
        return self._order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._order.load_state_dict(state)


def first_captions(rows: Sequence[FeatureRow]) -> Tensor:
    """(rows,): the number of each row's first caption among those of all rows."""
    counts = np.array([len(row.captions) for row in rows])
    return torch.from_numpy(np.cumsum(counts) - counts)
