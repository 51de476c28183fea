"""LSTM speakers. Two that feed each other must go word by word; one alone is a single cuDNN call."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, ...]


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden and cell state from summed gates (rows, 4 width) in torch's order: input, forget, new, output."""
    into, forget, new, out = gates.chunk(4, dim=1)  # one split: slices would each fill a whole gradient with zeros
    cell = torch.addcmul(torch.sigmoid(forget) * cell, torch.sigmoid(into), torch.tanh(new))
    return torch.sigmoid(out) * torch.tanh(cell), cell


class RecurrentSteps:
    """`decoding.Steps` of a speaker whose history is a tuple of tensors (rows, ...)."""

    def __init__(self, advance: Callable[[Tensor, State], tuple[Tensor, State]], state: State) -> None:
        self._advance, self._state = advance, state

    def step(self, ids: Tensor) -> Tensor:
        """Feed one word a row; scores of the next."""
        scores, self._state = self._advance(ids, self._state)
        return scores

    def select(self, rows: Tensor) -> None:
        """Let row i go on from the history of row `rows[i]`."""
        self._state = tuple(each[rows] for each in self._state)


class Words(nn.Sequential):
    """Embedding, ReLU, dropout: DUDA's way to feed words."""

    def __init__(self, vocabulary: int, width: int, dropout: float) -> None:
        super().__init__(nn.Embedding(vocabulary, width), nn.ReLU(), nn.Dropout(dropout))


class DynamicCore(nn.Module):
    """Two LSTMs: the first weighs before, difference and after for every word, the second writes it."""

    def __init__(
        self, memory: int, *, word: int, hidden: int, dropout: float, summary: int | None = None, tags: int = 0
    ) -> None:
        super().__init__()
        self.hidden, self.word, self.tags = hidden, word, tags
        self.summary = summary or hidden
        self.embed = nn.Sequential(nn.Linear(3 * memory, self.summary), nn.ReLU(), nn.Dropout(dropout))
        self.module_att_lstm = nn.LSTMCell(self.summary + hidden + tags, hidden)
        self.weight_fc = nn.Sequential(nn.Linear(hidden, 3), nn.Softmax(dim=1))
        self.lang_lstm = nn.LSTMCell(word + memory + tags, hidden)

    def prepare(self, memory: Tensor, tags: Tensor | None = None) -> DynamicFeed:
        """Everything that does not change from word to word, multiplied once."""
        word, first, second = self.word, self.module_att_lstm, self.lang_lstm
        begin, middle = self.summary, self.summary + self.hidden
        fixed = F.linear(self.embed(memory.flatten(1)), first.weight_ih[:, :begin], first.bias_ih + first.bias_hh)
        end = word + memory.shape[2]
        fixed_second = second.bias_ih + second.bias_hh
        if tags is not None:
            fixed = fixed + F.linear(tags, first.weight_ih[:, middle:])
            fixed_second = fixed_second + F.linear(tags, second.weight_ih[:, end:])
        return DynamicFeed(
            fixed=fixed,
            fixed_second=fixed_second,
            recurrent=torch.cat([first.weight_hh, first.weight_ih[:, begin:middle]], dim=1),
            visual=F.linear(memory, second.weight_ih[:, word:end]),
            words=second.weight_ih[:, :word],
            core=self,
        )

    def start(self, rows: int, like: Tensor) -> State:
        """Zero states of both LSTMs."""
        return tuple(like.new_zeros(rows, self.hidden) for _ in range(4))


class DynamicFeed:
    """One batch of pairs in front of a `DynamicCore`; weights of the gates are sliced here, once."""

    def __init__(
        self,
        *,
        fixed: Tensor,
        fixed_second: Tensor,
        recurrent: Tensor,
        visual: Tensor,
        words: Tensor,
        core: DynamicCore,
    ) -> None:
        self.fixed, self.fixed_second, self.recurrent = fixed, fixed_second, recurrent
        self.visual, self.words, self.core = visual, words, core

    def word_gates(self, words: Tensor) -> Tensor:
        """The words' part of the second LSTM's gates, for one or all words."""
        return F.linear(words, self.words) + (
            self.fixed_second if words.ndim == 2 or self.fixed_second.ndim == 1 else self.fixed_second[:, None]
        )

    def step(
        self, gates: Tensor, state: State, gate: Callable[[Tensor, Tensor], Tensor] | None = None
    ) -> tuple[Tensor, State]:
        """Weights (rows, 3) of before, difference, after, and the new state; `gate` may scale what is seen."""
        hidden_1, cell_1, hidden_2, cell_2 = state
        first = torch.addmm(self.fixed, torch.cat([hidden_1, hidden_2], dim=1), self.recurrent.T)
        hidden_1, cell_1 = lstm_cell(first, cell_1)
        weights = self.core.weight_fc(hidden_1)
        seen = (weights[:, None] @ self.visual)[:, 0] if gate is None else gate(weights, hidden_2)
        second = torch.addmm(gates + seen, hidden_2, self.core.lang_lstm.weight_hh.T)
        hidden_2, cell_2 = lstm_cell(second, cell_2)
        return weights, (hidden_1, cell_1, hidden_2, cell_2)


class DynamicSpeaker(nn.Module):
    """DUDA's dynamic speaker over the memory before, difference, after."""

    def __init__(
        self,
        memory: int,
        vocabulary: int,
        *,
        word: int = 300,
        hidden: int = 512,
        dropout: float = 0.5,
        summary: int | None = None,
        tags: int = 0,
    ) -> None:
        super().__init__()
        self.embed = Words(vocabulary, word, dropout)
        self.core = DynamicCore(memory, word=word, hidden=hidden, dropout=dropout, summary=summary, tags=tags)
        self.logit = nn.Linear(hidden, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def forward(self, memory: Tensor, ids: Tensor, tags: Tensor | None = None) -> dict[str, Tensor]:
        """Scores of the next words, and `module_weights` (pairs, words, 3)."""
        feed = self.core.prepare(memory, tags)
        gates = feed.word_gates(self.embed(ids))
        state = self.core.start(len(ids), memory)
        hidden, weights = [], []
        for each in gates.unbind(dim=1):
            weight, state = feed.step(each, state)
            hidden.append(state[2])
            weights.append(weight)
        states = torch.stack(hidden, dim=1)
        logits = self.logit(self.dropout(states))
        return {"logits": logits, "module_weights": torch.stack(weights, dim=1), "states": states}

    def steps(self, memory: Tensor, tags: Tensor | None = None) -> RecurrentSteps:
        """Word by word; `memory` has a row for every sentence."""
        feed = self.core.prepare(memory, tags)

        def advance(ids: Tensor, state: State) -> tuple[Tensor, State]:
            _, state = feed.step(feed.word_gates(self.embed(ids)), state)
            return self.logit(state[2]), state

        return RecurrentSteps(advance, self.core.start(len(memory), memory))


def weight_entropy(weights: Tensor, mask: Tensor) -> Tensor:
    """Entropy of the module weights over the words of each sentence, summed over words and divided by the pairs."""
    entropy = -(weights * weights.clamp_min(1e-38).log()).sum(dim=-1)
    return (entropy * mask).sum() / len(weights)
