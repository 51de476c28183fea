"""After SRDRL+AVS (Tu et al. 2021): self-attention, gated differences, kinds of words gate the speaker's view.

In the spirit of the published code, whose structure and losses it has. Guessed: the widths of the word-kind gate (its
hidden layer is wider there) and where dropout stands; kinds of words are from our own list instead of a tagger's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import AddedAttention
from spotchange.models.baselines.cells import CellConv, with_coordinates
from spotchange.models.baselines.dual_map import DualMap, gated, memory_of, under
from spotchange.models.baselines.dynamic_system import DetectorSystem
from spotchange.models.baselines.recurrent import DynamicFeed, DynamicSpeaker, RecurrentSteps, State
from spotchange.models.baselines.skeleton import Reading, Seen
from spotchange.models.baselines.word_labels import LABELS, label_loss, part_of_speech


class RelationDetector(DualMap):
    """Cells of 256, self-attention, and the dual map on [cells; difference; gated difference]."""

    def __init__(self, channels: int, grid: tuple[int, int], *, width: int, heads: int) -> None:
        super().__init__(3 * width)
        self.grid = grid
        self.img = nn.Sequential(CellConv(channels + 2, width))
        self.att_layer = AddedAttention(width, heads)
        self.gate_diff, self.gate_img = nn.Linear(width, width), nn.Linear(width, width)
        self.content_diff, self.content_img = nn.Linear(width, width), nn.Linear(width, width)
        self.fc1 = nn.Linear(width, 6)  # as in DUDA, never trained

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        cells = self.img(with_coordinates(torch.cat([before, after]), self.grid))
        cells = self.att_layer(cells, cells)
        first, second = cells.chunk(2)
        difference = second - first
        both = torch.cat([difference, difference])
        relation = gated(both, cells, (self.gate_diff, self.gate_img, self.content_diff, self.content_img))
        map_first, map_second = self.map_of(torch.cat([cells, both, relation], dim=-1)).chunk(2)
        l_first, l_second = under(map_first, first), under(map_second, second)
        return {
            "memory": memory_of(l_first, l_second - l_first, l_second),
            "map_before": map_first,
            "map_after": map_second,
        }


class KindGate(nn.Module):
    """p = softmax(kinds of the next word); sigmoid(W2 ReLU(W1 [state; P p; view])) on the view."""

    def __init__(self, state: int, view: int, *, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(state, state), nn.ReLU(), nn.Dropout(dropout))
        self.kinds = nn.Linear(state, LABELS)
        self.embed = nn.Linear(LABELS, state, bias=False)
        self.gate = nn.Sequential(nn.Linear(2 * state + view, state), nn.ReLU(), nn.Linear(state, view), nn.Sigmoid())

    def forward(self, state: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        """The gated view, and scores of the kinds."""
        kinds = self.kinds(self.hidden(state))
        embedded = self.embed(kinds.softmax(dim=-1))
        return view * self.gate(torch.cat([state, embedded, view], dim=-1)), kinds


class KindSpeaker(DynamicSpeaker):
    """The dynamic speaker with the gate between its two LSTMs."""

    def __init__(self, memory: int, vocabulary: int, *, word: int, hidden: int, dropout: float) -> None:
        super().__init__(memory, vocabulary, word=word, hidden=hidden, dropout=dropout)
        self.kind_gate = KindGate(hidden, memory, dropout=dropout)

    def forward(self, memory: Tensor, ids: Tensor, tags: Tensor | None = None) -> dict[str, Tensor]:
        feed, view = self.core.prepare(memory), self._view_weight(memory)
        state = self.core.start(len(ids), memory)
        hidden, weights, kinds = [], [], []
        for gates in feed.word_gates(self.embed(ids)).unbind(dim=1):
            weight, kind, state = self._step(feed, view, memory, gates, state)
            hidden.append(state[2])
            weights.append(weight)
            kinds.append(kind)
        states = torch.stack(hidden, dim=1)
        return {
            "logits": self.logit(self.dropout(states)),
            "module_weights": torch.stack(weights, dim=1),
            "kinds": torch.stack(kinds, dim=1),
        }

    def _view_weight(self, memory: Tensor) -> Tensor:
        """The second LSTM's weight of what is seen; sliced once, not for every word."""
        return self.core.lang_lstm.weight_ih[:, self.core.word : self.core.word + memory.shape[2]]

    def _step(
        self, feed: DynamicFeed, view_weight: Tensor, memory: Tensor, gates: Tensor, state: State
    ) -> tuple[Tensor, Tensor, State]:
        found: list[Tensor] = []

        def gate(weights: Tensor, before: Tensor) -> Tensor:
            view, kinds = self.kind_gate(before, (weights[:, None] @ memory)[:, 0])
            found.append(kinds)
            return F.linear(view, view_weight)

        weight, state = feed.step(gates, state, gate)
        return weight, found[0], state

    def steps(self, memory: Tensor, tags: Tensor | None = None) -> RecurrentSteps:
        feed, view = self.core.prepare(memory), self._view_weight(memory)

        def advance(ids: Tensor, state: State) -> tuple[Tensor, State]:
            _, _, state = self._step(feed, view, memory, feed.word_gates(self.embed(ids)), state)
            return self.logit(state[2]), state

        return RecurrentSteps(advance, self.core.start(len(memory), memory))


class Srdrl(DetectorSystem):
    """SRDRL+AVS."""

    title = "after SRDRL+AVS"
    published = "SRDRL+AVS (2021)"
    weights: ClassVar[dict[str, float]] = {**DetectorSystem.weights, "kinds": 1.0}
    kind_of_word: Tensor
    detector_type, speaker_type = RelationDetector, KindSpeaker

    def own_parts(self, vocabulary: int, width: int, dropout: float) -> dict[str, Any]:
        self.register_buffer("kind_of_word", torch.zeros(vocabulary, dtype=torch.long))
        return {}

    def take_words(self, words: list[str]) -> None:
        self.kind_of_word.copy_(torch.tensor([part_of_speech(word) for word in words]))

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        losses = super().auxiliary(seen, reading, ids, mask, changed=changed)
        return losses | {"kinds": kind_loss(reading["kinds"], self.kind_of_word, ids, mask)}


def kind_loss(scores: Tensor, kind_of_word: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of the kinds of the words that follow; scores (pairs, words, kinds)."""
    return label_loss(scores[:, :-1], kind_of_word[ids[:, 1:]], mask[:, 1:])
