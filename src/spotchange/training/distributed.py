"""The few things that several processes must agree on; with one process every function is the identity."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as distributed
from torch import Tensor

_outside_graphs: Any = torch.compiler.disable  # collectives split a compiled graph instead of confusing it


def count() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def gather_with_gradients(values: Tensor) -> Tensor:
    """Rows of all processes, in process order; gradients flow back to the process each row came from."""
    if count() == 1:
        return values
    gathered: Tensor = _outside_graphs(_Gather.apply)(values)
    return gathered


def gather(values: Tensor) -> Tensor:
    """Rows of all processes, in process order, as plain numbers."""
    if count() == 1:
        return values
    gathered: Tensor = _outside_graphs(_gather_plain)(values)
    return gathered


def global_mean(total: Tensor, number: Tensor) -> Tensor:
    """`total / number`, both summed over all processes, such that averaged gradients are those of the whole batch.

    Every process divides its own total by everyone's number; the factor undoes the average that
    data-parallel training takes over processes.
    """
    return total * count() / _sum_over_processes(number).clamp(min=1)


def global_sum(total: Tensor) -> Tensor:
    """`total` such that averaged gradients are those of the sum over all processes."""
    return total * count()


def agree(value: Any) -> Any:
    """The first process's `value`, for decisions that depend on a clock."""
    if count() == 1:
        return value
    box = [value]
    distributed.broadcast_object_list(box, src=0)
    return box[0]


def gather_objects(value: Any) -> list[Any]:
    """`value` of every process, in process order."""
    if count() == 1:
        return [value]
    box: list[Any] = [None] * count()
    distributed.all_gather_object(box, value)
    return box


def mean_over_processes(values: dict[str, Tensor]) -> dict[str, float]:
    """Averages of scalars, fetched from the device in one go."""
    if not values:
        return {}
    stacked = torch.stack([value.detach().float() for value in values.values()])
    if count() > 1:
        distributed.all_reduce(stacked)
        stacked /= count()
    return dict(zip(values, stacked.tolist(), strict=True))


def _gather_plain(values: Tensor) -> Tensor:
    parts = [torch.empty_like(values) for _ in range(count())]
    distributed.all_gather(parts, values.contiguous())
    return torch.cat(parts)


class _Gather(torch.autograd.Function):
    """Forward: everyone's rows. Backward: the sum of everyone's gradients for one's own rows."""

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        return _gather_plain(values)

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:
        summed = gradients[0].clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(summed)
        return summed.chunk(count())[distributed.get_rank()]


def _sum_over_processes(number: Tensor) -> Tensor:
    if count() == 1:
        return number.detach()
    summed: Tensor = _outside_graphs(_all_reduce)(number)
    return summed


def _all_reduce(number: Tensor) -> Tensor:
    summed = number.detach().clone()
    distributed.all_reduce(summed)
    return summed
