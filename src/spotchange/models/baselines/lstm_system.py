"""What the systems with one LSTM share: a fixed vector (`context`), and cells (`memory`) if the speaker attends."""

from __future__ import annotations

from torch import Tensor

from spotchange.models.baselines.lstm_speaker import LstmSpeaker
from spotchange.models.baselines.recurrent import RecurrentSteps
from spotchange.models.baselines.skeleton import Reading, Seen, System


class LstmSystem(System):
    """`look` gives `context` (pairs, width) and `memory` (pairs, tokens, width)."""

    speaker: LstmSpeaker
    attends = True

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        result: Reading = self.speaker(seen["context"], ids, seen["memory"] if self.attends else None)
        return result

    def steps(self, seen: Seen, rows_per_pair: int) -> RecurrentSteps:
        context, memory = (seen[name].repeat_interleave(rows_per_pair, dim=0) for name in ("context", "memory"))
        return self.speaker.steps(context, memory if self.attends else None)
