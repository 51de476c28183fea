"""After IFDC (Huang et al. 2021): regions told apart by their best match, and an up-down LSTM over pairs by index.

In the spirit of the program: weights a (1 - best cosine) with a learned from 0.5, the two LSTMs, additive attention
over [region; region of the same index] are its own. Its 25 detected regions are cells of a coarse grid here, and
the attribute words of a classifier, fused by a bilinear attention that the program builds anew (untrained) in every
pass, are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import CellConv, pooled, pooled_grid, with_coordinates
from spotchange.models.baselines.recurrent import RecurrentSteps, State, Words, lstm_cell
from spotchange.models.baselines.skeleton import Reading, Seen, System


class UpDownFeed(NamedTuple):
    """One batch of pairs in front of the speaker."""

    fixed: Tensor  # (rows, 4 hidden): LSTM-1's gates of the means
    keys: Tensor  # (rows, regions, hidden)
    seen: Tensor  # (rows, regions, 4 hidden): LSTM-2's gates of each region, its biases included
    recurrent: Tensor  # (2 hidden, 4 hidden)
    own: Tensor  # (2 hidden, 4 hidden)


class UpDownSpeaker(nn.Module):
    """LSTM-1 on [previous state; means; word], attention, LSTM-2 on what was attended to."""

    def __init__(self, region: int, vocabulary: int, *, word: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.hidden = hidden
        self.embed = Words(vocabulary, word, dropout)
        self.first = nn.LSTMCell(hidden + 2 * region + word, hidden)
        self.key, self.query = nn.Linear(2 * region, hidden), nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.second = nn.LSTMCell(2 * region + hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.logit = nn.Linear(hidden, vocabulary)

    def prepare(self, regions: Tensor) -> UpDownFeed:
        """All that does not change from word to word, multiplied and sliced once."""
        first, second, width = self.first, self.second, regions.shape[2]
        means = F.linear(regions.mean(dim=1), first.weight_ih[:, self.hidden : self.hidden + width])
        return UpDownFeed(
            fixed=means + first.bias_ih + first.bias_hh,
            keys=self.key(regions),
            seen=F.linear(regions, second.weight_ih[:, :width], second.bias_ih + second.bias_hh),
            recurrent=torch.cat([first.weight_hh, first.weight_ih[:, : self.hidden]], dim=1).T,
            own=torch.cat([second.weight_hh, second.weight_ih[:, width:]], dim=1).T,
        )

    def word_gates(self, ids: Tensor) -> Tensor:
        words = self.embed(ids)
        return F.linear(words, self.first.weight_ih[:, -words.shape[-1] :])

    def step(self, gates: Tensor, feed: UpDownFeed, state: State) -> State:
        hidden_1, cell_1, hidden_2, cell_2 = state
        first = torch.addmm(feed.fixed + gates, torch.cat([hidden_1, hidden_2], dim=1), feed.recurrent)
        hidden_1, cell_1 = lstm_cell(first, cell_1)
        weights = self.score(torch.tanh(feed.keys + self.query(hidden_1)[:, None]))[..., 0].softmax(dim=-1)
        attended = (weights[:, None] @ feed.seen)[:, 0]
        second = torch.addmm(attended, torch.cat([hidden_2, hidden_1], dim=1), feed.own)
        hidden_2, cell_2 = lstm_cell(second, cell_2)
        return hidden_1, cell_1, hidden_2, cell_2

    def start(self, regions: Tensor) -> State:
        return tuple(regions.new_zeros(len(regions), self.hidden) for _ in range(4))


class Ifdc(System):
    """After IFDC."""

    title = "after IFDC"
    published = "IFDC (2021)"

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        pool: int = 2,
    ) -> None:
        super().__init__()
        self.full_grid, self.pool, self.grid = grid, pool, pooled_grid(grid, pool)
        self.regions = CellConv(channels + 2, width)
        self.a = nn.Parameter(torch.tensor(0.5))
        self.speaker = UpDownSpeaker(width, vocabulary, word=word, hidden=hidden, dropout=dropout)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        before, after = (pooled(each, self.full_grid, self.pool) for each in (before, after))
        first, second = (F.relu(self.regions(with_coordinates(each, self.grid))) for each in (before, after))
        alike = F.normalize(before, dim=-1) @ F.normalize(after, dim=-1).transpose(1, 2)
        apart_first, apart_second = 1 - alike.amax(dim=2), 1 - alike.amax(dim=1)
        first = first * (1 + self.a * apart_first[..., None])
        second = second * (1 + self.a * apart_second[..., None])
        return {
            "memory": torch.cat([first, second], dim=-1),
            "apart_before": apart_first,
            "apart_after": apart_second,
        }

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        speaker, state = self.speaker, self.speaker.start(seen["memory"])
        given = speaker.prepare(seen["memory"])
        hidden = []
        for gates in speaker.word_gates(ids).unbind(dim=1):
            state = speaker.step(gates, given, state)
            hidden.append(state[2])
        states = torch.stack(hidden, dim=1)
        return {"logits": speaker.logit(speaker.dropout(states)), "states": states}

    def steps(self, seen: Seen, rows_per_pair: int) -> RecurrentSteps:
        speaker = self.speaker
        regions = seen["memory"].repeat_interleave(rows_per_pair, dim=0)
        given = speaker.prepare(regions)

        def advance(ids: Tensor, state: State) -> tuple[Tensor, State]:
            state = speaker.step(speaker.word_gates(ids), given, state)
            return speaker.logit(state[2]), state

        return RecurrentSteps(advance, speaker.start(regions))

    def heat(self, seen: Seen) -> Tensor:
        return torch.stack([seen["apart_before"], seen["apart_after"]], dim=1)
