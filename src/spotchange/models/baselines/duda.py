"""DUDA (Park, Darrell, Rohrbach 2019): a map over each image, and a speaker that weighs before, difference, after.

Read in the published code. Its 6-way head for the kind of change is there and never trained, as published.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from spotchange.models.baselines.cells import with_coordinates
from spotchange.models.baselines.dual_map import DualMap, map_sum, memory_of, under
from spotchange.models.baselines.recurrent import DynamicSpeaker, RecurrentSteps, weight_entropy
from spotchange.models.baselines.skeleton import Reading, Seen, System, repeated


class ChangeDetector(DualMap):
    """The dual map on [image; difference], with the unused head for kinds."""

    def __init__(self, channels: int, *, dropout: float) -> None:
        super().__init__(2 * channels, dropout=dropout)
        self.fc1 = nn.Linear(channels, 6)


class Duda(System):
    """DUDA."""

    title = "DUDA"
    published = "DUDA (2019)"
    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3, "entropy": -1e-4}

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.change_detector = ChangeDetector(channels + 2, dropout=dropout)
        self.speaker = DynamicSpeaker(channels + 2, vocabulary, word=word, hidden=hidden, dropout=dropout)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        before, after = with_coordinates(before, self.grid), with_coordinates(after, self.grid)
        return self.compare(before, after)

    def compare(self, before: Tensor, after: Tensor) -> Seen:
        """Maps and sums from features that have their coordinates already."""
        difference = after - before
        first, second = self.change_detector.maps(
            torch.cat([before, difference], dim=-1), torch.cat([after, difference], dim=-1)
        )
        l_before, l_after = under(first, before), under(second, after)
        return {
            "memory": memory_of(l_before, l_after - l_before, l_after),
            "map_before": first,
            "map_after": second,
        }

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        return self.speaker(seen["memory"], ids)

    def steps(self, seen: Seen, rows_per_pair: int) -> RecurrentSteps:
        return self.speaker.steps(repeated({"memory": seen["memory"]}, rows_per_pair)["memory"])

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        if not changed:  # as published: distractors pay neither
            return {}
        return {
            "map_sum": map_sum(seen["map_before"], seen["map_after"]),
            "entropy": weight_entropy(reading["module_weights"], mask),
        }

    def heat(self, seen: Seen) -> Tensor:
        return torch.stack([seen["map_before"], seen["map_after"]], dim=1)
