"""Which checkpoint is the best, and when to give up waiting for a better one."""

from __future__ import annotations

import math
from typing import Any

from spotchange.errors import ConfigError

# Of these names less is better; of every other more.
_LOSSES = ("loss", "words", "contrast", "attributes", "mask", "change", "answer", "median_rank", "mean_rank")


class Selection:
    """Watches one validation metric; `gave_up` after `patience` validations in a row without a better value.

    With `equal_is_better` a value as good as the best counts as better; up to the step `keep_after` nothing does.
    """

    def __init__(
        self, metric: str, *, patience: int | None, equal_is_better: bool = False, keep_after: int = 0
    ) -> None:
        self.metric = metric
        self.patience = patience
        self.equal_is_better = equal_is_better
        self.keep_after = keep_after
        self.best: float | None = None
        self.best_step = 0
        self.waited = 0

    def consider(self, results: dict[str, float], step: int) -> bool:
        """Take note of a validation; true if it is the best so far."""
        if self.metric not in results:
            raise ConfigError(f"validation.metric '{self.metric}' is not measured; there are: {', '.join(results)}")
        value = results[self.metric]
        sign = -1.0 if self.metric.rpartition(".")[2] in _LOSSES else 1.0
        if 0 < step <= self.keep_after or math.isnan(value) or not self._better(sign * value, sign):
            self.waited += 1
            return False
        self.best, self.best_step, self.waited = value, step, 0
        return True

    def _better(self, value: float, sign: float) -> bool:
        if self.best is None:
            return True
        return value > sign * self.best or (self.equal_is_better and value == sign * self.best)

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
