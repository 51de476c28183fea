"""Images with classes, for IDC-PCL's pre-training: pairs drawn from them, half of one class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.data.caches.images import open_cache
from spotchange.data.caches.reader import PairReader
from spotchange.data.metadata import numbered_classes
from spotchange.errors import ConfigError, DataError
from spotchange.pairs import PairBatch
from spotchange.training.sources.features import FeatureFolder
from spotchange.training.sources.interface import NoNegatives, RunContext
from spotchange.training.sources.tasks import CLASSES, TaskBatch

LabelledImages = tuple[Callable[[Tensor], Tensor], list[int]]
"""From numbers of rows to images or features on the device; and the class of every row."""


@dataclass(frozen=True, kw_only=True)
class ImageClasses(NoNegatives):
    """A source of pairs of images whose classes are known."""

    open: Callable[[RunContext], LabelledImages]

    def captions(self) -> Iterable[str]:
        return ()

    def batches(self, run: RunContext, pairs: int) -> ClassBatches:
        read, class_ids = self.open(run)
        return ClassBatches(
            read,
            class_ids,
            classes=run.start.settings.heads.classes,
            batch=pairs,
            seed=run.seed,
            device=run.device,
            rank=run.rank,
            processes=run.processes,
        )

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> None:
        return None


def classes_of_features(folder: FeatureFolder, run: RunContext) -> LabelledImages:
    """The rows of a feature folder made for classes."""
    store = folder.store(run)
    numbers = torch.tensor([row.before for row in store.rows])
    return lambda rows: store.images(numbers[rows]), [row.class_id for row in store.rows]


def classes_of_folder(path: str, split: str, cache: str | None, run: RunContext) -> LabelledImages:
    """The images of a data set with a column `class_id`."""
    height, width = run.image_size
    folder = open_cache(path, split, height=height, width=width, cache_dir=cache)
    class_ids = numbered_classes(path, split)
    reader = PairReader(
        folder, tokenizer=run.start.tokenizer, max_words=4, grid=None, protocol="pairs", pin_memory=False
    )

    def read(rows: Tensor) -> Tensor:
        return reader.read(rows.numpy(), np.zeros(len(rows), np.int64)).before.to(run.device)

    return read, class_ids


class ClassBatches:
    """Pairs of images with classes, half of them of one class."""

    paired = False
    shares_before = False

    def __init__(
        self,
        read: Callable[[Tensor], Tensor],
        class_ids: list[int],
        *,
        classes: int | None,
        batch: int,
        seed: int,
        device: torch.device,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        """Draw from images whose classes are known.

        Args:
            read: From numbers of rows (a tensor) to images or features on the device.
            class_ids: Class of every row.
            classes: How many the model's heads know.
            batch: Pairs of this process.
            seed: Of the draw.
            device: Where batches are put.
            rank: This process among `processes`.
            processes: How many share the data.
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
        self._seed, self._rank, self._processes, self._number = seed, rank, processes, 0

    def next_batch(self) -> TaskBatch:
        """Fresh pairs; no caption belongs to them."""
        chance = np.random.default_rng([self._seed, self._number * self._processes + self._rank])
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
