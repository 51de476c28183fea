"""A moving average of the weights: smoother than any single step, and what is validated and saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    """Exponential moving average of a module's floating-point parameters.

    The decay grows with the steps taken, so that early averages are not dominated by the random start. The arithmetic
    is torch's own; its `AveragedModel` would keep a copy of frozen parts too, and start from the first update.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self._live = {name: value for name, value in module.named_parameters() if value.requires_grad}
        self.shadow = {name: value.detach().clone() for name, value in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move a little towards the live weights."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        get_ema_multi_avg_fn(decay)(list(self.shadow.values()), list(self._live.values()), self.updates)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the module for as long as the context lasts."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, live in self._live.items():
            kept = live.detach().clone()
            live.copy_(self.shadow[name])
            self.shadow[name].copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        """The average and how many steps it has seen."""
        return {"updates": self.updates, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved average."""
        self.updates = int(state["updates"])
        for name, value in state["shadow"].items():
            self.shadow[name].copy_(value)
