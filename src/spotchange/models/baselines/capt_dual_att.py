"""After Capt-Dual-Att, an ablation of DUDA's paper: its two maps, and one LSTM fed a fixed combination.

The maps are DUDA's own. No code of the speaker was published: that it reads [before; after; difference] with every word
is a guess.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from spotchange.models.baselines.dual_map import map_sum
from spotchange.models.baselines.duda import ChangeDetector
from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.lstm_system import LstmSystem
from spotchange.models.baselines.skeleton import Reading, Seen


class CaptDualAtt(LstmSystem):
    """Capt-Dual-Att."""

    title = "after Capt-Dual-Att"
    published = "Capt-Dual-Att (2019)"
    weights: ClassVar[dict[str, float]] = {"map_sum": 2.5e-3}
    attends = False

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
        self.change_detector = ChangeDetector(channels, grid, dropout=dropout)
        self.speaker = LstmSpeaker(3 * (channels + 2), vocabulary, word=word, hidden=hidden, dropout=dropout)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        seen: Seen = self.change_detector(before, after)
        return seen | {"context": seen["memory"].flatten(1)}

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        return {"map_sum": map_sum(seen["map_before"], seen["map_after"])} if changed else {}
