"""RSICCformer (Liu et al. 2022), for satellite pairs: cells ask the difference, stages are fused, one decoder layer.

Read in the published code, a third of whose weights no forward pass uses; they are there so that its checkpoints fit.
Published and not repeated here: the frozen CNN stands in train mode (our features come from one in evaluation mode).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.models.baselines.attention import PackedAttention
from spotchange.models.baselines.cells import Bottleneck, CellConv, as_cells, as_planes, grid_positions
from spotchange.models.baselines.mccformers import MccDecoder, McFormers
from spotchange.models.baselines.skeleton import Seen
from spotchange.models.baselines.transformer import CrossLayer, DecoderLayer

DROPOUT = 0.5


class RsiccEncoder(nn.Module):
    """Layers whose keys are after - before of their own inputs, and the multi-stage fusion."""

    def __init__(
        self, channels: int, grid: tuple[int, int], *, width: int, heads: int, layers: int, inner: int
    ) -> None:
        super().__init__()
        self.grid = grid
        self.projection = CellConv(channels, width)
        self.projection2, self.projection3, self.projection4 = (CellConv(n, width) for n in (768, 512, 256))  # unused
        self.embedding_1D = nn.Embedding(grid[0] * grid[1], width)  # unused
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.transformer = nn.ModuleList(CrossLayer(width, heads, inner, dropout=DROPOUT) for _ in range(layers))
        self.resblock = nn.ModuleList(Bottleneck(2 * width) for _ in range(layers))
        self.LN = nn.ModuleList(nn.LayerNorm(2 * width) for _ in range(layers))

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        places = grid_positions(self.w_embedding, self.h_embedding, self.grid)
        first, second = self.projection(before) + places, self.projection(after) + places
        seen = {"tokens_before": first, "tokens_after": second}
        fused = torch.zeros(1, device=before.device)
        for number, (layer, block, norm) in enumerate(zip(self.transformer, self.resblock, self.LN, strict=True), 1):
            difference = second - first
            first, second = layer(torch.cat([first, second]), torch.cat([difference, difference])).chunk(2)
            stage = fused + torch.cat([first, second], dim=-1)
            fused = norm(as_cells(block(as_planes(stage, self.grid))))
            seen |= {f"before_{number}": first, f"after_{number}": second, f"fused_{number}": fused}
        return seen | {"memory": fused}


class RsiccLayer(DecoderLayer):
    """Reads the memory with `multihead_attn2`; the other attentions and gates are never used."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__(width, heads, inner, dropout=dropout, names=("self_attn", "multihead_attn2"))
        for name in ("self_attn2", "multihead_attn", "multihead_attn3"):
            self.add_module(name, PackedAttention(width, heads))
        for name in ("fc_alpha1", "fc_alpha2", "fc_alpha3"):
            self.add_module(name, nn.Linear(2 * width, width))


class UnusedPositions(nn.Module):
    """A table that the published program builds beside its sines and cosines."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding_1D = nn.Embedding(52, width)


class RsiccDecoder(MccDecoder):
    """MCCFormers' decoder with RSICCformer's layer."""

    def __init__(self, vocabulary: int, *, width: int, heads: int, layers: int, inner: int) -> None:
        super().__init__(vocabulary, width=width, heads=heads, layers=layers, inner=inner, dropout=DROPOUT)
        self.position_encoding = UnusedPositions(width)

    def layer(self, width: int, heads: int, inner: int, dropout: float) -> DecoderLayer:
        return RsiccLayer(width, heads, inner, dropout)


class RsiccFormer(McFormers):
    """RSICCformer."""

    title = "RSICCformer"
    published = "RSICCformer (2022)"
    swap = 0.0  # its data have no distractors
    encoder_type, decoder_type = RsiccEncoder, RsiccDecoder

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 3,
        inner: int = 2048,
        decoder_heads: int = 8,
        decoder_layers: int = 1,
        decoder_inner: int | None = None,
    ) -> None:
        super().__init__(
            channels=channels,
            grid=grid,
            vocabulary=vocabulary,
            width=width,
            heads=heads,
            layers=layers,
            inner=inner,
            decoder_heads=decoder_heads,
            decoder_layers=decoder_layers,
            decoder_inner=decoder_inner,
        )
