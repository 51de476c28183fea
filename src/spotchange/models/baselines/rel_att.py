"""Rel-Att (Tan et al. 2019), dynamic and static: an LSTM whose words attend to pairs of cells, read in the code.

One LSTM over the words alone, so cuDNN runs it in one call; attention follows for all words together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.cells import pooled
from spotchange.models.baselines.recurrent import RecurrentSteps, State
from spotchange.models.baselines.skeleton import Reading, Seen, System, repeated

DROPOUT = 0.5


class Fc(nn.Module):
    """A linear layer under the published name."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = False) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(x)
        return result


class PairAttention(nn.Module):
    """Dynamic: softmax over all pairs of cells of sum_d q_d s_d t_d / sqrt(width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query_linear, self.src_linear = Fc(width, width), Fc(width, width)
        self.out_linear = Fc(5 * width, width)

    def weights(self, words: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """(pairs, words, cells before, cells after)."""
        query = self.query_linear(words)
        asked = query[:, :, None] * before[:, None]  # (pairs, words, cells, width)
        # In fp32: the published model collapses on some GPUs where this softmax is rounded.
        scores = (asked.flatten(1, 2) @ after.transpose(1, 2)).float() / query.shape[-1] ** 0.5
        weights = scores.unflatten(1, (words.shape[1], -1)).flatten(2).softmax(dim=-1)
        result: Tensor = weights.unflatten(-1, (before.shape[1], -1))
        return result

    def forward(self, words: Tensor, before: Tensor, after: Tensor) -> Tensor:
        before, after = self.src_linear(before), self.src_linear(after)
        weights = self.weights(words, before, after)
        source = weights.sum(dim=3).to(before.dtype) @ before
        target = weights.sum(dim=2).to(after.dtype) @ after
        joined = torch.cat([words, source, target, words * source, words * target], dim=-1)
        return F.dropout(F.relu(self.out_linear(joined)), DROPOUT, self.training)


class MixAttention(nn.Module):
    """Static: one query for each image; out = ReLU(W [x; c; x * c])."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.q_fc, self.k_fc = Fc(width, inner), Fc(width, inner)
        self.mix = Fc(3 * width, width)

    def forward(self, x: Tensor, cells: Tensor) -> Tensor:
        keys = self.k_fc(cells)
        scores = self.q_fc(x) @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
        context = scores.float().softmax(dim=-1).to(cells.dtype) @ cells
        return F.relu(self.mix(torch.cat([x, context, x * context], dim=-1)))


class RelAttDecoder(nn.Module):
    """Words through an LSTM, then attention (`att` or `attention_layers`), then scores."""

    def __init__(self, channels: int, vocabulary: int, *, hidden: int, word: int, static: bool) -> None:
        super().__init__()
        self.w_emb = nn.Embedding(vocabulary, word)
        self.lstm = nn.LSTM(word, hidden, batch_first=True)
        self.img_fc = Fc(channels, hidden, bias=True)
        if static:
            self.attention_layers = nn.ModuleList(MixAttention(hidden, hidden) for _ in range(2))
        else:
            self.att = PairAttention(hidden)
        self.projection = Fc(hidden, vocabulary, bias=True)
        self.static = static

    def project(self, cells: Tensor) -> Tensor:
        """Cells as the attention sees them, tanh, shared by both images."""
        return torch.tanh(self.img_fc(F.dropout(cells, DROPOUT, self.training)))

    def recur(self, ids: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """All words through the LSTM."""
        words, state = self.lstm(F.dropout(self.w_emb(ids), DROPOUT, self.training), state)
        return F.dropout(words, DROPOUT, self.training), state

    def attended(self, words: Tensor, before: Tensor, after: Tensor) -> list[Tensor]:
        """What every attention gave, the last one for the scores."""
        if not self.static:
            return [self.att(words, before, after)]
        first = self.attention_layers[0](words, before)
        return [first, self.attention_layers[1](first, after)]


class StaticEncoder(nn.Module):
    """Each image's cells attend to the other's."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.src2trg_att, self.trg2src_att = MixAttention(channels, inner), MixAttention(channels, inner)

    def forward(self, before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        return self.src2trg_att(before, after), self.trg2src_att(after, before)


class RelAtt(System):
    """Rel-Att, dynamic.

    Args:
        pool: cells averaged to one, each way; the published grid has 7x7 cells.
    """

    title = "Rel-Att"
    swap = 0.0  # its data have no distractors
    says_unknown = False
    static = False

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        hidden: int = 512,
        word: int = 256,
        pool: int = 2,
    ) -> None:
        super().__init__()
        self.grid, self.pool = grid, pool
        if self.static:
            self.encoder = StaticEncoder(channels, hidden)
        self.decoder = RelAttDecoder(channels, vocabulary, hidden=hidden, word=word, static=self.static)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        before, after = (pooled(each, self.grid, self.pool) for each in (before, after))
        seen: Seen = {}
        if self.static:
            before, after = self.encoder(before, after)
            seen = {"encoded_before": before, "encoded_after": after}
        first, second = self.decoder.project(before), self.decoder.project(after)
        return seen | {"memory": torch.cat([first, second], dim=1), "before": first, "after": second}

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        words, (hidden, cell) = self.decoder.recur(ids, None)
        attended = self.decoder.attended(words, seen["before"], seen["after"])
        found = {f"attention_{number}": each for number, each in enumerate(attended, 1)}
        logits = self.decoder.projection(attended[-1])
        return found | {"logits": logits, "words": words, "hidden": hidden[0], "cell": cell[0]}

    def steps(self, seen: Seen, rows_per_pair: int) -> RecurrentSteps:
        rows = repeated({name: seen[name] for name in ("before", "after")}, rows_per_pair)
        hidden = self.decoder.lstm.hidden_size
        zero = rows["before"].new_zeros(len(rows["before"]), hidden)

        def advance(ids: Tensor, state: State) -> tuple[Tensor, State]:
            words, (new_hidden, new_cell) = self.decoder.recur(ids[:, None], (state[0][None], state[1][None]))
            attended = self.decoder.attended(words, rows["before"], rows["after"])[-1]
            return self.decoder.projection(attended)[:, 0], (new_hidden[0], new_cell[0])

        return RecurrentSteps(advance, (zero, zero.clone()))


class RelAttStatic(RelAtt):
    """Rel-Att, static."""

    title = "Rel-Att, static"
    static = True
