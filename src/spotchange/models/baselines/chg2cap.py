"""Chg2Cap (Chang, Ghamisi 2023), for satellite pairs: self-attention on each image and on both, read in the code.

`as_published` repeats what its program does: values come from the key projection; the tables of rows and columns, and
height and width at the end, are exchanged; training hides the end token as a key. Otherwise none of that.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import Attention, KeysValues, seen_by_words
from spotchange.models.baselines.cells import (
    Bottleneck,
    CellConv,
    as_cells,
    as_planes,
    grid_positions,
    pooled,
    pooled_grid,
)
from spotchange.models.baselines.mccformers import MccDecoder
from spotchange.models.baselines.rsiccformer import UnusedPositions
from spotchange.models.baselines.skeleton import Reading, Seen, System
from spotchange.models.baselines.transformer import DecoderLayer, LayerReading, WordSteps

DROPOUT = 0.1


class ProjectedAttention(Attention):
    """Queries, keys and values without biases, of another width than the cells."""

    def __init__(self, cells: int, width: int, heads: int, *, values_from_keys: bool) -> None:
        super().__init__(heads=heads, dropout=DROPOUT)
        self.to_q = nn.Linear(cells, width, bias=False)
        self.to_k = nn.Linear(cells, width, bias=False)
        self.to_v = nn.Linear(cells, width, bias=False)
        self.to_out = nn.Sequential(nn.Linear(width, cells), nn.Dropout(DROPOUT))
        self.values_from_keys = values_from_keys

    def queries(self, x: Tensor) -> Tensor:
        queries: Tensor = self.to_q(x)
        return queries

    def keys_values(self, x: Tensor) -> KeysValues:
        keys = self.to_k(x)
        return keys, keys if self.values_from_keys else self.to_v(x)

    def join(self, x: Tensor) -> Tensor:
        joined: Tensor = self.to_out(x)
        return joined


class Narrow(nn.Module):
    """A feed-forward part narrower than its ends."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(width, inner), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(inner, width), nn.Dropout(DROPOUT)
        )


class SelfBlock(nn.Module):
    """Post-norm self-attention and feed-forward."""

    def __init__(self, width: int, attention: int, heads: int, inner: int, *, values_from_keys: bool) -> None:
        super().__init__()
        self.att = ProjectedAttention(width, attention, heads, values_from_keys=values_from_keys)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feedforward = Narrow(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(self.att(x, x) + x)
        result: Tensor = self.norm2(self.feedforward.net(x) + x)
        return result


class Chg2CapEncoder(nn.Module):
    """Layers of (each image, both images), every one added to what entered the first."""

    def __init__(
        self,
        channels: int,
        grid: tuple[int, int],
        *,
        table: int,
        attention: int,
        heads: int,
        layers: int,
        inner: int,
        as_published: bool,
    ) -> None:
        super().__init__()
        self.grid, self.as_published = grid, as_published
        self.w_embedding, self.h_embedding = nn.Embedding(table, channels // 2), nn.Embedding(table, channels // 2)
        self.selftrans = nn.ModuleList(
            nn.ModuleList(
                SelfBlock(width, attention, heads, inner, values_from_keys=as_published)
                for width in (channels, 2 * channels)
            )
            for _ in range(layers)
        )

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        tables = (self.w_embedding, self.h_embedding)
        places = grid_positions(*(tables[::-1] if self.as_published else tables), self.grid)
        entered = torch.cat([before + places, after + places])
        seen = {"tokens_before": entered.chunk(2)[0], "tokens_after": entered.chunk(2)[1]}
        x = entered
        for number, layer in enumerate(self.selftrans, 1):
            alone, joint = cast(nn.ModuleList, layer)
            own = alone(x)
            both = torch.cat((own + x).chunk(2), dim=-1)
            joined = joint(both)
            x = torch.cat(joined.chunk(2, dim=-1)) + entered
            seen |= {
                f"self_before_{number}": own.chunk(2)[0],
                f"self_after_{number}": own.chunk(2)[1],
                f"joint_in_{number}": both,
                f"joint_out_{number}": joined,
            }
        first, second = x.chunk(2)
        if self.as_published:  # height and width exchanged
            first, second = (as_cells(as_planes(each, self.grid).transpose(2, 3)) for each in (first, second))
        return seen | {"before": first, "after": second}


class Chg2CapLayer(DecoderLayer):
    """A decoder layer that adds its own input once more; its gates are never used."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__(width, heads, inner, dropout=dropout)
        for name in ("fc_alpha1", "fc_alpha2", "fc_alpha3"):
            self.add_module(name, nn.Linear(2 * width, width))

    def forward(self, x: Tensor, own: KeysValues, visual: KeysValues, mask: Tensor | None) -> LayerReading:
        reading = super().forward(x, own, visual, mask)
        return reading._replace(out=reading.out + x)


class Chg2CapDecoder(MccDecoder):
    """Both images with their cosine, fused, and the decoder."""

    def __init__(self, vocabulary: int, *, channels: int, width: int, heads: int, layers: int, inner: int) -> None:
        super().__init__(vocabulary, width=width, heads=heads, layers=layers, inner=inner, dropout=DROPOUT)
        self.Conv1 = CellConv(2 * channels, width)
        self.LN = Bottleneck(width)
        self.position_encoding = UnusedPositions(width)

    def layer(self, width: int, heads: int, inner: int, dropout: float) -> DecoderLayer:
        return Chg2CapLayer(width, heads, inner, dropout)

    def fuse(self, before: Tensor, after: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Memory (pairs, cells, width) and the cosine of every cell."""
        cosine = F.cosine_similarity(before, after, dim=-1)
        both = torch.cat([before, after], dim=-1) + cosine[..., None]
        return as_cells(self.LN(as_planes(self.Conv1(both), grid))), cosine


class Chg2Cap(System):
    """Chg2Cap; as wide as the features are.

    Args:
        pool: cells averaged to one, each way: its layers are made for 8x8 cells.
        end: id of the end token, which `as_published` hides in training.
        pad: id of padding, which words never look at, not even if it was chosen as a word.
    """

    title = "Chg2Cap"
    published = "Chg2Cap (2023)"
    swap = 0.0  # its data have no distractors

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        pool: int = 2,
        table: int = 16,
        attention: int | None = None,
        heads: int = 8,
        layers: int = 3,
        inner: int = 512,
        decoder_width: int | None = None,
        decoder_heads: int = 8,
        decoder_layers: int = 1,
        decoder_inner: int | None = None,
        end: int = 2,
        pad: int = 0,
        as_published: bool = False,
    ) -> None:
        super().__init__()
        self.full_grid, self.pool, self.grid = grid, pool, pooled_grid(grid, pool)
        self.end, self.pad, self.as_published = end, pad, as_published
        self.encoder = Chg2CapEncoder(
            channels,
            self.grid,
            table=max(table, *self.grid),
            attention=attention or channels,
            heads=heads,
            layers=layers,
            inner=inner,
            as_published=as_published,
        )
        width = decoder_width or channels
        self.decoder = Chg2CapDecoder(
            vocabulary,
            channels=channels,
            width=width,
            heads=decoder_heads,
            layers=decoder_layers,
            inner=decoder_inner or 4 * width,
        )

    def look(self, before: Tensor, after: Tensor) -> Seen:
        before, after = (pooled(each, self.full_grid, self.pool) for each in (before, after))
        seen = self.encoder(before, after)
        memory, cosine = self.decoder.fuse(seen["before"], seen["after"], self.grid)
        result: Seen = seen | {"memory": memory, "cosine": cosine}
        return result

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        keys = mask & (ids != self.end) if self.as_published else mask
        logits, _ = self.decoder(seen["memory"], ids, seen_by_words(keys, padding=True))
        return {"logits": logits}

    def steps(self, seen: Seen, rows_per_pair: int) -> WordSteps:
        return self.decoder.steps(seen["memory"], rows_per_pair, hidden=self.pad)

    def heat(self, seen: Seen) -> Tensor:
        """How little a cell is like its counterpart in the end."""
        apart = (1 - seen["cosine"]) / 2
        return torch.stack([apart, apart], dim=1)
