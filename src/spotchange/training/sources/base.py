"""Where batches come from: generated scenes, data sets on disk, a mix of both; all with a state to resume from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from spotchange.pairs import PairBatch


class BatchSource(Protocol):
    """Endless batches of one size."""

    paired: bool
    """Whether distractor rows follow their change rows."""

    shares_before: bool
    """Whether a distractor row shows the same picture before as its change row, so that one look at it is enough."""

    def next_batch(self) -> PairBatch: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class MixedBatches:
    """A whole batch from one of several sources at a time, drawn by weight."""

    def __init__(self, sources: Sequence[BatchSource], weights: Sequence[float] | None, *, seed: int) -> None:
        self.sources = list(sources)
        self.paired = all(source.paired for source in sources)
        self.shares_before = all(source.shares_before for source in sources)
        self._weights = torch.tensor(weights or [1.0] * len(self.sources), dtype=torch.float64)
        self._generator = torch.Generator().manual_seed(seed)

    def next_batch(self) -> PairBatch:
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


class ChangedBatches:
    """A source whose batches pass through a function: other words, augmented pictures."""

    shares_before = False  # augmentation draws for every row

    def __init__(self, source: BatchSource, change: Callable[[PairBatch], PairBatch]) -> None:
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
