"""What the systems with two maps and the dynamic speaker share: words, map sum, entropy, heat."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from spotchange.models.baselines.dual_map import map_sum
from spotchange.models.baselines.recurrent import DynamicSpeaker, RecurrentSteps, weight_entropy
from spotchange.models.baselines.skeleton import Reading, Seen, System


class DynamicSystem(System):
    """The detector gives `memory` (pairs, 3, channels), `map_before` and `map_after` (pairs, cells)."""

    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3, "entropy": -1e-4}
    least_words = 1
    change_detector: nn.Module
    speaker: DynamicSpeaker

    def look(self, before: Tensor, after: Tensor) -> Seen:
        seen: Seen = self.change_detector(before, after)
        return seen

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        result: Reading = self.speaker(seen["memory"], ids, seen.get("tags"))
        return result

    def steps(self, seen: Seen, rows_per_pair: int) -> RecurrentSteps:
        tags = seen.get("tags")
        return self.speaker.steps(
            seen["memory"].repeat_interleave(rows_per_pair, dim=0),
            None if tags is None else tags.repeat_interleave(rows_per_pair, dim=0),
        )

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        if not changed:  # as published: distractors pay neither
            return {}
        return {
            "map_sum": map_sum(seen["map_before"], seen["map_after"]),
            "entropy": weight_entropy(reading["module_weights"], mask),
        }


class DetectorSystem(DynamicSystem):
    """A detector on cells of one width before the dynamic speaker: what SRDRL, R3Net and VARD share.

    `as_published`: their loader seeds the random generator for every item, so "before" and distractor are never
    exchanged.
    """

    detector_type: ClassVar[Any]
    speaker_type: ClassVar[Any] = DynamicSpeaker

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 256,
        heads: int = 4,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        as_published: bool = False,
    ) -> None:
        super().__init__()
        self.change_detector = self.detector_type(channels, grid, width=width, heads=heads)
        own = self.own_parts(vocabulary, width, dropout)
        self.speaker = self.speaker_type(width, vocabulary, word=word, hidden=hidden, dropout=dropout, **own)
        if as_published:
            self.swap = 0.0  # type: ignore[misc]

    def own_parts(self, vocabulary: int, width: int, dropout: float) -> dict[str, Any]:
        """Make what only this system has; returns further arguments of its speaker."""
        return {}
