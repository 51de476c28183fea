"""Transformer layers of the published programs, and a speaker's way through them: all words at once, or one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import Attention, KeysValues, PackedAttention


@lru_cache(maxsize=16)
def _table(length: int, width: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # kept, and training adds it to words too
        place = torch.arange(length, device=device, dtype=torch.float)[:, None]
        rate = torch.exp(torch.arange(0, width, 2, device=device, dtype=torch.float) * (-math.log(10000.0) / width))
        table = torch.zeros(length, width, device=device)
        table[:, 0::2] = torch.sin(place * rate)
        table[:, 1::2] = torch.cos(place * rate)[:, : width // 2]
        return table


def with_sinusoid(words: Tensor, first: int) -> Tensor:
    """(rows, words, width) plus the usual sines and cosines, from place `first` on."""
    last = first + words.shape[1]
    length = -(-last // 64) * 64  # few tables, whatever the lengths
    return words + _table(length, words.shape[-1], words.device)[first:last]


class LayerReading(NamedTuple):
    """What a decoder layer made of the words, and where it stood after each of its attentions."""

    out: Tensor
    after_words: Tensor
    after_memory: Tensor


class FeedForwardSublayer(nn.Module):
    """Post-norm attention blocks share this end: LayerNorm(x + W2 ReLU(W1 x)), under the names of torch's layers."""

    def __init__(self, width: int, inner: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.linear1 = nn.Linear(width, inner)
        self.linear2 = nn.Linear(inner, width)
        self.add_module(norm, nn.LayerNorm(width))
        self.drop, self._last_norm = dropout, norm

    def fed_forward(self, x: Tensor) -> Tensor:
        inner = F.dropout(F.relu(self.linear1(x)), self.drop, self.training)
        grown = F.dropout(self.linear2(inner), self.drop, self.training)
        return cast(Tensor, self.get_submodule(self._last_norm)(x + grown))


class CrossLayer(FeedForwardSublayer):
    """An encoder layer: each cell asks `memory` (its own image, the other one, or their difference)."""

    def __init__(self, width: int, heads: int, inner: int, *, dropout: float, name: str = "attention") -> None:
        super().__init__(width, inner, dropout, "norm2")
        self.add_module(name, PackedAttention(width, heads, dropout=dropout))
        self.norm1 = nn.LayerNorm(width)
        self._name = name

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        attended = self.get_submodule(self._name)(x, memory)
        return self.fed_forward(self.norm1(x + F.dropout(attended, self.drop, self.training)))


class DecoderLayer(FeedForwardSublayer):
    """A post-norm decoder layer: words so far, the memory, feed-forward; `names` are those of its two attentions."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        dropout: float,
        names: tuple[str, str] = ("self_attn", "multihead_attn"),
    ) -> None:
        super().__init__(width, inner, dropout, "norm3")
        for name in names:
            self.add_module(name, PackedAttention(width, heads, dropout=dropout))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self._names = names

    @property
    def to_words(self) -> Attention:
        return cast(Attention, self.get_submodule(self._names[0]))

    @property
    def to_memory(self) -> Attention:
        return cast(Attention, self.get_submodule(self._names[1]))

    def forward(self, x: Tensor, own: KeysValues, visual: KeysValues, mask: Tensor | None) -> LayerReading:
        said = self.to_words.attend(self.to_words.queries(x), own, mask)
        after_words = self.norm1(x + F.dropout(said, self.drop, self.training))
        seen = self.to_memory.attend(self.to_memory.queries(after_words), visual)
        after_memory = self.norm2(after_words + F.dropout(seen, self.drop, self.training))
        return LayerReading(self.fed_forward(after_memory), after_words, after_memory)


def layers_of(modules: Iterable[nn.Module]) -> list[DecoderLayer]:
    """A module list with the type of what is in it."""
    return [cast(DecoderLayer, each) for each in modules]


def read_words(
    layers: Sequence[DecoderLayer], words: Tensor, memory: Tensor, mask: Tensor | None
) -> list[LayerReading]:
    """All words at once; `mask` says which sees which."""
    readings = []
    for layer in layers:
        reading = layer(words, layer.to_words.keys_values(words), layer.to_memory.keys_values(memory), mask)
        readings.append(reading)
        words = reading.out
    return readings


class WordSteps:
    """`decoding.Steps`: keys and values of the memory are computed once, those of words kept; nobody sees `hidden`."""

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        memory: Tensor,
        rows_per_pair: int,
        *,
        embed: Callable[[Tensor, int], Tensor],
        scores: Callable[[Tensor], Tensor],
        hidden: int | None = None,
    ) -> None:
        self._layers, self._embed, self._scores, self._hidden = layers, embed, scores, hidden
        visual = [layer.to_memory.keys_values(memory) for layer in layers]
        self._visual = [
            (keys.repeat_interleave(rows_per_pair, dim=0), values.repeat_interleave(rows_per_pair, dim=0))
            for keys, values in visual
        ]
        self._own: list[KeysValues | None] = [None] * len(layers)
        self._seen: Tensor | None = None  # (rows, words so far), where a word is hidden
        self._position = 0

    def step(self, ids: Tensor) -> Tensor:
        """Feed one word a row; scores of the next."""
        x = self._embed(ids[:, None], self._position)
        if self._hidden is not None:
            shown = ids[:, None] != self._hidden
            self._seen = shown if self._seen is None else torch.cat([self._seen, shown], dim=1)
        mask = None if self._seen is None else self._seen[:, None, None]
        for number, layer in enumerate(self._layers):
            keys, values = layer.to_words.keys_values(x)
            before = self._own[number]
            if before is not None:
                keys, values = torch.cat([before[0], keys], dim=1), torch.cat([before[1], values], dim=1)
            self._own[number] = keys, values
            x = layer(x, (keys, values), self._visual[number], mask).out
        self._position += 1
        return self._scores(x[:, 0])

    def select(self, rows: Tensor) -> None:
        """Let row i go on from the history of row `rows[i]`."""
        self._own = [None if own is None else (own[0][rows], own[1][rows]) for own in self._own]
        self._seen = None if self._seen is None else self._seen[rows]
