"""Batches for IDC-PCL's pre-training: pairs, and what is to be done with them in this step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotchange.config.objectives import PclTaskWeights
from spotchange.pairs import PairBatch
from spotchange.training.sources.base import BatchSource

MLM, MVCL, FDA, CLASSES = "mlm", "mvcl", "fda", "classes"


@dataclass(frozen=True, kw_only=True)
class TaskBatch:
    """Pairs with a task.

    `pairs.before` and `pairs.after` are pictures as bytes, or grid features (N, cells, channels) from disk.
    """

    task: str
    pairs: PairBatch
    single: bool = False
    """Single pictures with captions: only `before` is read."""
    shared_before: bool = False
    """Rows 2k and 2k + 1 show the same picture before, which need be seen only once."""
    negative_ids: Tensor | None = None  # int64 (N, negatives, words)
    negative_mask: Tensor | None = None  # bool (N, negatives, words)
    class_ids: Tensor | None = None  # int64 (N, 2): the classes of before and after

    def __len__(self) -> int:
        return len(self.pairs)


class TaskBatches:
    """A source of captions with a task drawn for every batch, by weight; every process draws the same.

    `negatives` gives false sentences for the captions of a batch, ids and mask; it is asked in steps that need them.
    """

    def __init__(
        self,
        source: BatchSource,
        weights: PclTaskWeights,
        *,
        seed: int,
        single: bool,
        shared_before: bool = False,
        negatives: Callable[[PairBatch], tuple[Tensor, Tensor]],
    ) -> None:
        self.source, self.single, self.negatives = source, single, negatives
        self.shared_before = shared_before
        self.paired, self.shares_before = source.paired, source.shares_before
        self._weights = torch.tensor([weights.mlm, weights.mvcl, weights.fda], dtype=torch.float64)
        self._generator = torch.Generator().manual_seed(seed)

    def next_batch(self) -> TaskBatch:
        """The source's next batch and what to do with it."""
        task = (MLM, MVCL, FDA)[int(torch.multinomial(self._weights, 1, generator=self._generator))]
        pairs = self.source.next_batch()
        ids, mask = self.negatives(pairs) if task == FDA else (None, None)
        return TaskBatch(
            task=task,
            pairs=pairs,
            single=self.single,
            shared_before=self.shared_before,
            negative_ids=ids,
            negative_mask=mask,
        )

    def state_dict(self) -> dict[str, Any]:
        """The source's state and the draw's own."""
        return {"source": self.source.state_dict(), "draw": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.source.load_state_dict(state["source"])
        self._generator.set_state(state["draw"])
