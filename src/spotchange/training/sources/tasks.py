"""Batches for IDC-PCL's pre-training: pairs, and what is to be done with them in this step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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

MLM, MVCL, FDA, CLASSES = "mlm", "mvcl", "fda", "classes"


@dataclass(frozen=True, kw_only=True)
class TaskBatch:
    """Pairs with a task.

    `pairs.before` and `pairs.after` are images as bytes, or grid features (N, cells, channels) from disk.
    """

    task: str
    pairs: PairBatch
    single: bool = False
    """Single images with captions: only `before` is read."""
    shares_before: bool = False
    """Rows 2k and 2k + 1 show the same image before, which need be encoded only once."""
    negative_ids: Tensor | None = None  # int64 (N, negatives, words)
    negative_mask: Tensor | None = None  # bool (N, negatives, words)
    class_ids: Tensor | None = None  # int64 (N, 2): the classes of before and after

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, kw_only=True)
class PretrainingTasks(NoNegatives):
    """A source of captions with a task drawn for every batch."""

    source: Source
    weights: Mapping[str, float]
    plan: NegativePlan
    """Hard negatives for each caption."""
    single: bool
    """Whether its rows are single images."""

    def captions(self) -> Iterable[str]:
        return self.source.captions()

    def batches(self, run: RunContext, pairs: int) -> TaskBatches:
        needed = self.weights[FDA] > 0
        return TaskBatches(
            self.source.batches(run, pairs),
            self.weights,
            seed=run.seed,
            single=self.single,
            negatives=self.source.negatives(run, self.plan) if needed else _none_needed,
        )

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        return self.source.held_out(run, pairs=pairs, at_once=at_once, split=split)


class TaskBatches:
    """Batches with a task drawn for each, by weight; every process draws the same.

    `negatives` gives false sentences for the captions of a batch; it is asked in steps that need them.
    """

    def __init__(
        self, source: Batches, weights: Mapping[str, float], *, seed: int, single: bool, negatives: Negatives
    ) -> None:
        self.source, self.single, self.negatives = source, single, negatives
        self.paired, self.shares_before = source.paired, source.shares_before
        self._weights = torch.tensor([weights[task] for task in (MLM, MVCL, FDA)], dtype=torch.float64)
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
            shares_before=self.shares_before,
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


def _none_needed(batch: PairBatch) -> tuple[Tensor, Tensor]:
    raise AssertionError("the task fda has no weight and is never drawn")
