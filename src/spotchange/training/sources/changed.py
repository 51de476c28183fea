"""A source whose batches pass through a function on their way to the model: augmentation above all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from spotchange.pairs import PairBatch
from spotchange.training.sources.interface import Batches, HeldOut, Negatives, RunContext, Source


@dataclass(frozen=True, kw_only=True)
class Augmented:
    """A source whose training batches pass through a random change of their images; held-out pairs stay as they are."""

    source: Source
    augmentation: Callable[[RunContext], Callable[[PairBatch], PairBatch]]
    mirrors: bool
    """Whether captions are mirrored along with their images."""

    def captions(self) -> Iterable[str]:
        return self.source.captions()

    def batches(self, run: RunContext, pairs: int) -> ChangedBatches:
        return ChangedBatches(self.source.batches(run, pairs), self.augmentation(run))

    def held_out(self, run: RunContext, *, pairs: int, at_once: int) -> HeldOut | None:
        return self.source.held_out(run, pairs=pairs, at_once=at_once)

    def negatives(self, run: RunContext, counts: tuple[int, int, int], *, mirrored: bool = False) -> Negatives:
        return self.source.negatives(run, counts, mirrored=mirrored or self.mirrors)


class ChangedBatches:
    """Batches that pass through a function."""

    shares_before = False  # augmentation draws for every row

    def __init__(self, source: Batches, change: Callable[[PairBatch], PairBatch]) -> None:
        self.source, self.change = source, change
        self.paired = source.paired

    def next_batch(self) -> PairBatch:
        """The source's next batch, changed."""
        return self.change(self.source.next_batch())

    def state_dict(self) -> dict[str, Any]:
        """The source's own; what the change draws comes from torch's generators, which are saved apart."""
        return self.source.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.source.load_state_dict(state)
