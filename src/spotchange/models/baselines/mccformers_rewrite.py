"""MCCFormers as the outside rewrite (doiken23/mccformers.pytorch) has it, with which CLEVR-Change can be trained.

Another model than the authors': one learned vector for every cell (S: of both images), learned word positions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import seen_by_words
from spotchange.models.baselines.cells import CellConv
from spotchange.models.baselines.mccformers import Layers, crossed_cells, joint_cells
from spotchange.models.baselines.skeleton import Reading, Seen, System
from spotchange.models.baselines.transformer import CrossLayer, DecoderLayer, WordSteps, layers_of, read_words


class LearnedPositions(nn.Module):
    """One vector for every place."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.pe = nn.Parameter(torch.zeros(places, 1, width))
        nn.init.normal_(self.pe, std=0.02)


class RewriteEncoder(nn.Module):
    """Projection, positions and layers."""

    def __init__(self, channels: int, places: int, *, width: int, heads: int, layers: int, inner: int) -> None:
        super().__init__()
        self.linear = CellConv(channels, width)
        self.positional_encoding = LearnedPositions(places, width)
        self.transformer = Layers(
            [CrossLayer(width, heads, inner, dropout=0.1, name="self_attn") for _ in range(layers)]
        )


class McFormersRewrite(System):
    """The rewrite of MCCFormers-D, or with `joint` of -S."""

    title = "MCCFormers-D, rewrite"
    joint = False

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
        max_words: int = 48,
    ) -> None:
        super().__init__()
        cells = grid[0] * grid[1]
        places = 2 * cells if self.joint else cells
        self.encoder = RewriteEncoder(channels, places, width=width, heads=heads, layers=layers, inner=inner)
        self.embedding_layer = nn.Embedding(vocabulary, 2 * width, padding_idx=0)
        self.positional_encoding = LearnedPositions(max_words, 2 * width)
        inner = decoder_inner or 8 * width
        self.decoder = Layers(
            [DecoderLayer(2 * width, decoder_heads, inner, dropout=0.1) for _ in range(decoder_layers)]
        )
        self.cap_predictor = nn.Linear(2 * width, vocabulary)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        encoder = self.encoder
        places = encoder.positional_encoding.pe[:, 0]
        first, second = encoder.linear(before), encoder.linear(after)
        if self.joint:
            return joint_cells(torch.cat([first, second], dim=1) + places, encoder.transformer.layers)
        return crossed_cells(first + places, second + places, encoder.transformer.layers)

    def embed(self, ids: Tensor, first: int) -> Tensor:
        """Words with their learned places."""
        places = self.positional_encoding.pe[first : first + ids.shape[1], 0]
        return F.dropout(self.embedding_layer(ids) + places, 0.1, self.training)

    def scores(self, states: Tensor) -> Tensor:
        """Of every word."""
        scores: Tensor = self.cap_predictor(F.dropout(states, 0.2, self.training))
        return scores

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        layers = layers_of(self.decoder.layers)
        readings = read_words(layers, self.embed(ids, 0), seen["memory"], seen_by_words(mask, padding=False))
        return {"logits": self.scores(readings[-1].out)}

    def steps(self, seen: Seen, rows_per_pair: int) -> WordSteps:
        layers = layers_of(self.decoder.layers)
        return WordSteps(layers, seen["memory"], rows_per_pair, embed=self.embed, scores=self.scores)


class McFormersSRewrite(McFormersRewrite):
    """The rewrite of MCCFormers-S."""

    title = "MCCFormers-S, rewrite"
    joint = True
