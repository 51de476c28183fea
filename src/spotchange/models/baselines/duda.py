"""DUDA (Park, Darrell, Rohrbach 2019): a map over each image, and a speaker that weighs before, difference, after.

Read in the published code. Its 6-way head for the kind of change is there and never trained, as published. Its
configuration asks for captions without repeated words, but the sampler reads a misspelt name: no such rule acts here.
"""

from __future__ import annotations

from torch import Tensor, nn

from spotchange.models.baselines.cells import with_coordinates
from spotchange.models.baselines.dual_map import DualMap, memory_of, under
from spotchange.models.baselines.dynamic_system import DynamicSystem
from spotchange.models.baselines.recurrent import DynamicSpeaker
from spotchange.models.baselines.skeleton import Seen


class ChangeDetector(DualMap):
    """The dual map on [image; difference], with the unused head for kinds."""

    def __init__(
        self, channels: int, grid: tuple[int, int], *, hidden: int = 128, groups: int = 32, dropout: float
    ) -> None:
        super().__init__(2 * (channels + 2), hidden=hidden, groups=groups, dropout=dropout)
        self.fc1 = nn.Linear(channels + 2, 6)
        self.grid = grid

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        """Maps, and what lies under them: before, difference, after."""
        before, after = with_coordinates(before, self.grid), with_coordinates(after, self.grid)
        first, second = self.maps_beside(after - before, before, after)
        l_before, l_after = under(first, before), under(second, after)
        return {
            "memory": memory_of(l_before, l_after - l_before, l_after),
            "map_before": first,
            "map_after": second,
        }


class Duda(DynamicSystem):
    """DUDA.

    Args:
        map_hidden: Channels behind the maps.
        map_groups: Of their norm.
        summary: Width of what the first LSTM is told of the pair; as published as wide as `hidden`.
    """

    title = "DUDA"
    published = "DUDA (2019)"

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        word: int = 300,
        hidden: int = 512,
        map_hidden: int = 128,
        map_groups: int = 32,
        summary: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.change_detector = ChangeDetector(channels, grid, hidden=map_hidden, groups=map_groups, dropout=dropout)
        self.speaker = DynamicSpeaker(
            channels + 2, vocabulary, word=word, hidden=hidden, dropout=dropout, summary=summary
        )
