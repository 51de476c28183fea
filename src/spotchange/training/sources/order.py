"""Which units of a set come when: every epoch all of them once, in an order that depends on seed and epoch only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spotchange.data.caches.index import Numbers
from spotchange.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The part of a batch that lies in one epoch."""

    units: Numbers
    places: Numbers
    """Where each unit stands in the order of its epoch."""
    draws: Numbers
    """The epoch's random numbers, which decide what captions are taken."""


class EpochOrder:
    """Batches run on across the border of epochs, so none is cut short and none is left out.

    Processes take turns: rank r of w gets batches r, r + w and so on.
    """

    def __init__(
        self,
        units: int,
        per_batch: int,
        *,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        draws: int | None = None,
        shuffle: bool = True,
    ) -> None:
        if not 0 <= rank < processes:
            raise ConfigError(f"rank {rank} is not one of {processes}")
        self.units, self.per_batch, self.seed = units, per_batch, seed
        self.position = 0  # units that all processes together have been given
        self.step = per_batch * processes
        self._rank, self._shuffle, self._draws = rank, shuffle, units if draws is None else draws
        self._plans: dict[int, tuple[Numbers, Numbers]] = {}

    def take(self) -> list[Stretch]:
        """The next batch of this process."""
        self.position += self.step
        return self.at(self.position - self.step)

    def at(self, position: int) -> list[Stretch]:
        """The batch of this process at a position."""
        epochs, places = np.divmod(position + self._rank * self.per_batch + np.arange(self.per_batch), self.units)
        found = []
        for epoch in np.unique(epochs):
            order, draws = self._plan(int(epoch))
            here = places[epochs == epoch]
            found.append(Stretch(units=order[here], places=here, draws=draws))
        return found

    def state_dict(self) -> dict[str, Any]:
        """Where the order stands; holds for any batch size and any number of processes."""
        return {"position": self.position, "seed": self.seed, "units": self.units}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        mine = self.state_dict()
        for name in ("seed", "units"):
            if state.get(name, mine[name]) != mine[name]:
                raise DataError(f"cannot resume: the data had {name} {state[name]}, now it has {mine[name]}")
        self.position = int(state["position"])

    def _plan(self, epoch: int) -> tuple[Numbers, Numbers]:
        plan = self._plans.get(epoch)
        if plan is None:
            if self._shuffle:
                chance = np.random.default_rng([self.seed, epoch])
                plan = chance.permutation(self.units), chance.integers(2**31, size=self._draws)
            else:
                plan = np.arange(self.units), np.full(self._draws, epoch)
            # Batches prepared ahead may lie on both sides of an epoch's border: keep the neighbours.
            self._plans = {old: kept for old, kept in self._plans.items() if abs(old - epoch) <= 1} | {epoch: plan}
        return plan
