"""Sources made of sources: several in turn, drawn by weight; and one whose batches pass through an augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from spotchange.pairs import PairBatch
from spotchange.training.sources.interface import (
    Batches,
    HeldOut,
    NegativePlan,
    Negatives,
    NoNegatives,
    RunContext,
    Source,
)


@dataclass(frozen=True, kw_only=True)
class Mixture(NoNegatives):
    """Whole batches from several sources in turn; the first one has the held-out pairs."""

    sources: Sequence[Source]
    weights: Sequence[float] | None = None

    def captions(self) -> Iterator[str]:
        return chain.from_iterable(source.captions() for source in self.sources)

    def batches(self, run: RunContext, pairs: int) -> MixedBatches:
        return MixedBatches([source.batches(run, pairs) for source in self.sources], self.weights, seed=run.seed)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        return self.sources[0].held_out(run, pairs=pairs, at_once=at_once, split=split)


class MixedBatches:
    """A whole batch from one of several sources at a time, drawn by weight."""

    def __init__(self, sources: Sequence[Batches], weights: Sequence[float] | None, *, seed: int) -> None:
        self.sources = list(sources)
        self.paired = all(source.paired for source in sources)
        self.shares_before = all(source.shares_before for source in sources)
        self._weights = torch.tensor(weights or [1.0] * len(self.sources), dtype=torch.float64)
        self._generator = torch.Generator().manual_seed(seed)

    def next_batch(self) -> Any:
        """The next batch of whichever source is drawn."""
        chosen = int(torch.multinomial(self._weights, 1, generator=self._generator))
        return self.sources[chosen].next_batch()

    def state_dict(self) -> dict[str, Any]:
        """Every source's state and the draw's own."""
        return {
            "sources": [source.state_dict() for source in self.sources],
            "draw": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        for source, saved in zip(self.sources, state["sources"], strict=True):
            source.load_state_dict(saved)
        self._generator.set_state(state["draw"])


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

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        return self.source.held_out(run, pairs=pairs, at_once=at_once, split=split)

    def negatives(self, run: RunContext, plan: NegativePlan, *, mirrored: bool = False) -> Negatives:
        return self.source.negatives(run, plan, mirrored=mirrored or self.mirrors)


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
