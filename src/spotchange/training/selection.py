"""Which checkpoint is the best, and when to give up waiting for a better one."""

from __future__ import annotations

import math
from typing import Any

from spotchange.errors import ConfigError

# Of these names less is better; of every other more.
_LOSSES = ("loss", "words", "contrast", "attributes", "mask", "change", "answer", "median_rank", "mean_rank")


class Selection:
    """Watches one validation metric; `gave_up` after `patience` validations in a row without a better value."""

    def __init__(self, metric: str, *, patience: int | None) -> None:
        self.metric = metric
        self.patience = patience
        self.best: float | None = None
        self.best_step = 0
        self.waited = 0

    def consider(self, results: dict[str, float], step: int) -> bool:
        """Take note of a validation; true if it is the best so far."""
        if self.metric not in results:
            raise ConfigError(f"validation.metric '{self.metric}' is not measured; there are: {', '.join(results)}")
        value = results[self.metric]
        sign = -1.0 if self.metric.rpartition(".")[2] in _LOSSES else 1.0
        if math.isnan(value) or (self.best is not None and not sign * value > sign * self.best):
            self.waited += 1
            return False
        self.best, self.best_step, self.waited = value, step, 0
        return True

    @property
    def gave_up(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """What resuming needs."""
        return {"best": self.best, "best_step": self.best_step, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.best, self.best_step, self.waited = state["best"], state["best_step"], state["waited"]
