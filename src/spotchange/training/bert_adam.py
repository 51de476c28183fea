"""BertAdam, the optimizer of the published CLIP4IDC: Adam without bias correction, decay beside the gradient.

step = rate * (m / (sqrt(v) + eps) + decay * weight), m and v being plain moving averages that start at zero. Parameters
in a group with `half` are kept as the published program keeps most of CLIP: weights, averages and the arithmetic of the
step in half precision, without a full-precision copy. There v underflows to zero for small gradients, so that a step
becomes rate * m / eps, and steps under half a unit of the weight vanish: at the published rate of 1e-7 this is another
training than the same in full precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class BertAdam(torch.optim.Optimizer):
    """Groups may set `half`; everything else as in torch's optimizers."""

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "half": False})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        half = torch.float16 if group["half"] else parameter.dtype
        state = self.state[parameter]
        if not state:
            state["mean"] = torch.zeros_like(parameter, dtype=half)
            state["square"] = torch.zeros_like(parameter, dtype=half)
        mean, square, gradient = state["mean"], state["square"], gradient.to(half)
        first, second = group["betas"]
        mean.mul_(first).add_(gradient, alpha=1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        weight = parameter.to(half)
        step = mean / (square.sqrt() + group["eps"])
        if group["weight_decay"]:
            step.add_(weight, alpha=group["weight_decay"])
        parameter.copy_(weight - group["lr"] * step)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, which makes averages as wide as their parameters: those of `half` groups become narrow again."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for parameter in group["params"] if group["half"] else ():
                self.state[parameter] = {name: value.half() for name, value in self.state[parameter].items()}
