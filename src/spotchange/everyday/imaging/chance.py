"""Random numbers that are the same on every device: a hash of the seed, the scene's number and the draw's number."""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF


def hashed(values: Tensor) -> Tensor:
    """32 well-mixed bits of int64 values ("lowbias32"); products may wrap, their low half stays right."""
    values = values & _MASK
    values = ((values ^ (values >> 16)) * 0x7FEB352D) & _MASK
    values = ((values ^ (values >> 15)) * 0x846CA68B) & _MASK
    return values ^ (values >> 16)


def unit(bits: Tensor) -> Tensor:
    """32 bits to float32 in [0, 1)."""
    return (bits >> 8).float() * 2.0**-24


class Draws:
    """A row of numbers for each scene; whoever asks first gets the first ones."""

    def __init__(self, seed: int, scenes: Tensor) -> None:
        mixed = int(hashed(torch.tensor(seed)))
        self.keys = hashed(hashed(scenes.long()) + mixed)  # (scenes,)
        self.drawn = 0

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """(scenes, count) between `low` and `high`."""
        numbers = torch.arange(self.drawn, self.drawn + count, device=self.keys.device)
        self.drawn += count
        return low + (high - low) * unit(hashed(self.keys[:, None] + numbers * 0x9E3779B9))

    def one(self, low: float = 0.0, high: float = 1.0) -> Tensor:
        """(scenes,) between `low` and `high`."""
        return self.uniform(1, low, high)[:, 0]

    def happens(self, probability: float) -> Tensor:
        """(scenes,) True as often as `probability` says."""
        return self.one() < probability

    def bell(self, count: int, spread: float) -> Tensor:
        """(scenes, count) round zero: the sum of three uniforms, at most three spreads from it."""
        result: Tensor = (self.uniform(3 * count).unflatten(1, (count, 3)).sum(dim=2) - 1.5) * 2 * spread
        return result
