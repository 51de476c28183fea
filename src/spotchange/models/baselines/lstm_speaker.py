"""A speaker of one LSTM, which cuDNN runs over all words in one call; attention to the memory, if any, follows it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.recurrent import RecurrentSteps, State, Words


class LstmSpeaker(nn.Module):
    """Words and a fixed vector of the pair into an LSTM; with `memory`, its states ask cells of that width."""

    def __init__(
        self,
        context: int,
        vocabulary: int,
        *,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        memory: int | None = None,
    ) -> None:
        super().__init__()
        self.embed = Words(vocabulary, word, dropout)
        self.context = nn.Sequential(nn.Linear(context, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.lstm = nn.LSTM(word + hidden, hidden, batch_first=True)
        self.query = nn.Linear(hidden, hidden, bias=False) if memory is not None else None
        self.key = nn.Linear(memory, hidden, bias=False) if memory is not None else None
        self.join = nn.Linear(hidden + memory, hidden) if memory is not None else None
        self.dropout = nn.Dropout(dropout)
        self.logit = nn.Linear(hidden, vocabulary)

    def forward(self, context: Tensor, ids: Tensor, memory: Tensor | None = None) -> dict[str, Tensor]:
        """Scores of the next words and `states`; with a memory also `attention` (pairs, words, tokens)."""
        given = self.context(context)
        states, _ = self.lstm(self._inputs(ids, given))
        return self._said(states, memory)

    def steps(self, context: Tensor, memory: Tensor | None = None) -> RecurrentSteps:
        """Word by word; `context` and `memory` have a row for every sentence."""
        given = self.context(context)
        zero = given.new_zeros(len(given), self.lstm.hidden_size)

        def advance(ids: Tensor, state: State) -> tuple[Tensor, State]:
            states, (hidden, cell) = self.lstm(self._inputs(ids[:, None], given), (state[0][None], state[1][None]))
            return self._said(states, memory)["logits"][:, 0], (hidden[0], cell[0])

        return RecurrentSteps(advance, (zero, zero.clone()))

    def _inputs(self, ids: Tensor, given: Tensor) -> Tensor:
        words = self.embed(ids)
        return torch.cat([words, given[:, None].expand(-1, words.shape[1], -1).to(words.dtype)], dim=-1)

    def _said(self, states: Tensor, memory: Tensor | None) -> dict[str, Tensor]:
        if memory is None or self.query is None or self.key is None or self.join is None:
            return {"logits": self.logit(self.dropout(states)), "states": states}
        keys = self.key(memory)
        attention = (self.query(states) @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5).softmax(dim=-1)
        joined = F.relu(self.join(torch.cat([states, attention.to(memory.dtype) @ memory], dim=-1)))
        return {"logits": self.logit(self.dropout(joined)), "states": joined, "attention": attention}
