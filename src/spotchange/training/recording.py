"""One update recorded as a CUDA graph: replaying it launches all its kernels at once.

An LSTM speaker takes two to four thousand kernels an update, most of them a few microseconds long. Launched one by one
from Python they leave the GPU idle most of the time; as one graph they follow each other without a gap. Objectives
promise static shapes and fetch nothing from the device (`objectives/base.py`), which is all that recording needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from spotchange.pairs import PairBatch

if TYPE_CHECKING:
    from spotchange.training.optimizers import Optimizers

    Optimizer = torch.optim.Optimizer | Optimizers

_UNRECORDED = 3  # updates before the recording: libraries choose their algorithms and allocate what they keep


class RecordedUpdate:
    """`update(batch)` of an Adam on one GPU, recorded at the fourth batch; batches of another shape run unrecorded."""

    def __init__(self, update: Callable[[PairBatch], dict[str, Tensor]], optimizer: Optimizer) -> None:
        self._update, self._optimizer = update, optimizer
        self._unrecorded = _UNRECORDED
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: PairBatch
        self._values: dict[str, Tensor]

    def __call__(self, batch: PairBatch) -> dict[str, Tensor]:
        """Update once; the scalars stay on the device and are overwritten by the next update."""
        if self._unrecorded:
            self._unrecorded -= 1
            return self._aside(batch)
        if self._graph is None:
            self._record(batch)
        elif _layout(batch) != _layout(self._batch):
            return self._update(batch)
        else:
            for name, value in _tensors(batch).items():
                getattr(self._batch, name).copy_(value)
        assert self._graph is not None
        self._graph.replay()
        return self._values

    def _aside(self, batch: PairBatch) -> dict[str, Tensor]:
        """On a stream of its own, as recordings are: what libraries allocate for a stream is then there."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            values = self._update(batch)
        torch.cuda.current_stream().wait_stream(aside)
        return values

    def _record(self, batch: PairBatch) -> None:
        """Record without computing; the first replay is this batch's update."""
        for group in self._optimizer.param_groups:  # rates change from update to update: the graph reads them
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=batch.before.device)
            group["capturable"] = True
        self._batch = replace(batch, **{name: value.clone() for name, value in _tensors(batch).items()})
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._values = {name: value.detach() for name, value in self._update(self._batch).items()}
        for group in self._optimizer.param_groups:  # a saved state may go on on a CPU, which knows no such thing
            group["capturable"] = False
        self._graph = graph


def _tensors(batch: PairBatch) -> dict[str, Tensor]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if value is not None}


def _layout(batch: PairBatch) -> dict[str, Any]:
    return {name: (value.shape, value.dtype) for name, value in _tensors(batch).items()}
