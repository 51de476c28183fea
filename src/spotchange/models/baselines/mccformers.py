"""MCCFormers-D and -S (Qiu et al. 2021): transformers over both images' cells, a decoder over the joined cells.

Read in the published code. As published D cannot even be constructed: its constructor names a class that does not
exist. `McFormersRewrite` is the outside rewrite (doiken23/mccformers.pytorch), whose positions are learned vectors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import seen_by_words
from spotchange.models.baselines.cells import CellConv, grid_positions
from spotchange.models.baselines.skeleton import Reading, Seen, System
from spotchange.models.baselines.transformer import (
    CrossLayer,
    DecoderLayer,
    LayerReading,
    WordSteps,
    layers_of,
    read_words,
    with_sinusoid,
)


class Layers(nn.Module):
    """A list under the name that torch's stacks give it."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class DEncoder(nn.Module):
    """Every layer runs on (before, after) and (after, before) with shared weights, from the old values."""

    def __init__(
        self, channels: int, grid: tuple[int, int], *, width: int, heads: int, layers: int, inner: int
    ) -> None:
        super().__init__()
        self.grid = grid
        self.projection = CellConv(channels, width)
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.transformer = nn.ModuleList(CrossLayer(width, heads, inner, dropout=0.5) for _ in range(layers))

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        places = grid_positions(self.w_embedding, self.h_embedding, self.grid)
        return crossed_cells(self.projection(before) + places, self.projection(after) + places, self.transformer)


class SEncoder(nn.Module):
    """Both images as one sequence, told apart by an image vector."""

    def __init__(
        self, channels: int, grid: tuple[int, int], *, width: int, heads: int, layers: int, inner: int
    ) -> None:
        super().__init__()
        self.grid = grid
        self.input_proj = CellConv(channels, width)
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.idx_embedding = nn.Embedding(2, width)
        self.transformer = Layers(
            [CrossLayer(width, heads, inner, dropout=0.1, name="self_attn") for _ in range(layers)]
        )

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        places = grid_positions(self.w_embedding, self.h_embedding, self.grid)
        images = self.idx_embedding.weight
        joint = torch.cat(
            [self.input_proj(before) + places + images[0], self.input_proj(after) + places + images[1]], dim=1
        )
        return joint_cells(joint, self.transformer.layers)


def crossed_cells(first: Tensor, second: Tensor, layers: nn.ModuleList) -> Seen:
    """Each image's cells ask the other's in every one of `layers`, then the two images side by side, cell by cell."""
    seen = {"tokens_before": first, "tokens_after": second}
    for number, layer in enumerate(layers, 1):
        first, second = layer(torch.cat([first, second]), torch.cat([second, first])).chunk(2)
        seen |= {f"before_{number}": first, f"after_{number}": second}
    return seen | {"memory": torch.cat([first, second], dim=-1)}


def joint_cells(joint: Tensor, layers: nn.ModuleList) -> Seen:
    """One sequence of both images' cells through `layers`, then the two images side by side, cell by cell."""
    seen = {"tokens_joint": joint}
    for number, layer in enumerate(layers, 1):
        joint = layer(joint, joint)
        seen[f"joint_{number}"] = joint
    return seen | {"memory": torch.cat(joint.chunk(2, dim=1), dim=-1)}


class MccDecoder(nn.Module):
    """Words with sines and cosines, decoder layers, and a linear layer; no norm at the end."""

    def __init__(
        self, vocabulary: int, *, width: int, heads: int, layers: int, inner: int, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.vocab_embedding = nn.Embedding(vocabulary, width)
        self.transformer = Layers([self.layer(width, heads, inner, dropout) for _ in range(layers)])
        self.wdc = nn.Linear(width, vocabulary)
        self.drop = dropout

    def layer(self, width: int, heads: int, inner: int, dropout: float) -> DecoderLayer:
        """One layer; satellite systems have their own."""
        return DecoderLayer(width, heads, inner, dropout=dropout)

    def embed(self, ids: Tensor, first: int) -> Tensor:
        return F.dropout(with_sinusoid(self.vocab_embedding(ids), first), 0.1, self.training)

    def forward(self, memory: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, list[LayerReading]]:
        """Scores of the next words and what each layer read; `mask` (…, words, words) says which word sees which."""
        readings = read_words(layers_of(self.transformer.layers), self.embed(ids, 0), memory, mask)
        return self.scores(readings[-1].out), readings

    def scores(self, states: Tensor) -> Tensor:
        scores: Tensor = self.wdc(F.dropout(states, self.drop, self.training))
        return scores

    def steps(self, memory: Tensor, rows_per_pair: int, *, hidden: int | None = None) -> WordSteps:
        layers = layers_of(self.transformer.layers)
        return WordSteps(layers, memory, rows_per_pair, embed=self.embed, scores=self.scores, hidden=hidden)


class McFormers(System):
    """What -D and -S share: one token of the memory for every cell, [before; after]."""

    encoder_type: ClassVar[Any]
    decoder_type: ClassVar[Any] = MccDecoder

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 4,
        layers: int = 2,
        inner: int = 2048,
        decoder_heads: int = 4,
        decoder_layers: int = 2,
        decoder_inner: int | None = None,
    ) -> None:
        super().__init__()
        self.encoder = self.encoder_type(channels, grid, width=width, heads=heads, layers=layers, inner=inner)
        self.decoder = self.decoder_type(
            vocabulary,
            width=2 * width,
            heads=decoder_heads,
            layers=decoder_layers,
            inner=decoder_inner or 8 * width,
        )

    def look(self, before: Tensor, after: Tensor) -> Seen:
        seen: Seen = self.encoder(before, after)
        return seen

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        logits, readings = self.decoder(seen["memory"], ids, seen_by_words(mask, padding=False))
        return {"logits": logits} | {f"decoder_{n}": each.out for n, each in enumerate(readings, 1)}

    def steps(self, seen: Seen, rows_per_pair: int) -> WordSteps:
        steps: WordSteps = self.decoder.steps(seen["memory"], rows_per_pair)
        return steps


class McFormersD(McFormers):
    """MCCFormers-D: cross-attention between the images."""

    title = "MCCFormers-D"
    published = "MCCFormers-D (2021)"
    encoder_type = DEncoder


class McFormersS(McFormers):
    """MCCFormers-S: self-attention over both images."""

    title = "MCCFormers-S"
    published = "MCCFormers-S (2021)"
    encoder_type = SEncoder
