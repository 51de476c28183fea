"""What the systems with two maps and the dynamic speaker share: words, map sum, entropy, heat."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from spotchange.models.baselines.dual_map import map_sum
from spotchange.models.baselines.recurrent import DynamicSpeaker, RecurrentSteps, weight_entropy
from spotchange.models.baselines.skeleton import Reading, Seen, System


class DynamicSystem(System):
    """`look` gives `memory` (pairs, 3, channels), `map_before` and `map_after` (pairs, cells)."""

    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3, "entropy": -1e-4}
    speaker: DynamicSpeaker

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

    def heat(self, seen: Seen) -> Tensor | None:
        return torch.stack([seen["map_before"], seen["map_after"]], dim=1)
