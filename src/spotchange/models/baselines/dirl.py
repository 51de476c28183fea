"""DIRL and its cross-modal contrastive regularisation (Tu et al. 2024), read in the published code."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import PackedAttention, seen_by_words
from spotchange.models.baselines.cells import CellConv, grid_positions, with_coordinates
from spotchange.models.baselines.matching import decorrelation, diagonal_loss
from spotchange.models.baselines.skeleton import Reading, Seen, System
from spotchange.models.baselines.transformer import DecoderLayer, WordSteps, layers_of, read_words, with_sinusoid

DROPOUT = 0.1
OFF_DIAGONAL = 0.003
TEMPERATURE = 0.5


class CommonLayer(nn.Module):
    """What a cell finds in the other image: LayerNorm(x + attention), both ways from the old values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = PackedAttention(width, heads, dropout=DROPOUT)
        self.norm1 = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        result: Tensor = self.norm1(x + F.dropout(self.attention(x, memory), DROPOUT, self.training))
        return result


class DirlDetector(nn.Module):
    """Projected cells with places; an MLP for the decorrelation only; cells minus what the other image explains."""

    def __init__(
        self, channels: int, grid: tuple[int, int], *, width: int, heads: int, layers: int, inner: int
    ) -> None:
        super().__init__()
        self.grid = grid
        self.img = nn.Sequential(CellConv(channels, width))
        self.w_embedding, self.h_embedding = nn.Embedding(grid[1], width // 2), nn.Embedding(grid[0], width // 2)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(inner, width))
        self.transformer = nn.ModuleList(CommonLayer(width, heads) for _ in range(layers))

    def forward(self, before: Tensor, after: Tensor) -> Seen:
        places = grid_positions(self.w_embedding, self.h_embedding, self.grid)
        first, second = self.img(before) + places, self.img(after) + places
        seen = {"tokens_before": first, "tokens_after": second}
        for number, layer in enumerate(self.transformer, 1):
            first, second = layer(torch.cat([first, second]), torch.cat([second, first])).chunk(2)
            seen |= {f"before_{number}": first, f"after_{number}": second}
        return seen | {
            "difference_before": seen["tokens_before"] - first,
            "difference_after": seen["tokens_after"] - second,
        }


class DirlCore(nn.Module):
    """Fused differences for the memory; words with places, a linear layer and a norm; decoder layers."""

    def __init__(self, vocabulary: int, *, width: int, word: int, heads: int, layers: int, inner: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, word)
        self.fc = nn.Sequential(nn.Linear(word, width), nn.LayerNorm(width), nn.Dropout(DROPOUT))
        self.embed_fc = nn.Sequential(nn.Linear(2 * width, width), nn.LayerNorm(width), nn.Dropout(DROPOUT), nn.ReLU())
        names = ("self_att", "cross_att")
        self.layer = nn.ModuleList(
            DecoderLayer(width, heads, inner, dropout=DROPOUT, names=names) for _ in range(layers)
        )

    def words(self, ids: Tensor, first: int) -> Tensor:
        """Embedded words from place `first` on."""
        embedded: Tensor = self.fc(with_sinusoid(self.embed(ids), first))
        return embedded


class DirlSpeaker(nn.Module):
    """The core and the scores."""

    def __init__(self, vocabulary: int, **sizes: int) -> None:
        super().__init__()
        self.core = DirlCore(vocabulary, **sizes)
        self.logit = nn.Linear(sizes["width"], vocabulary)


class Dirl(System):
    """DIRL."""

    title = "DIRL"
    weights: ClassVar[dict[str, float]] = {"decorrelation": 0.5}
    says_unknown = False
    ccr_part = False

    def __init__(
        self,
        *,
        channels: int,
        grid: tuple[int, int],
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 2,
        mlp: int = 2048,
        word: int = 300,
        decoder_heads: int = 8,
        decoder_layers: int = 2,
        decoder_inner: int = 2048,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.change_detector = DirlDetector(channels + 2, grid, width=width, heads=heads, layers=layers, inner=mlp)
        self.speaker = DirlSpeaker(
            vocabulary, width=width, word=word, heads=decoder_heads, layers=decoder_layers, inner=decoder_inner
        )
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def look(self, before: Tensor, after: Tensor) -> Seen:
        seen: Seen = self.change_detector(with_coordinates(before, self.grid), with_coordinates(after, self.grid))
        both = torch.cat([seen["difference_before"], seen["difference_after"]], dim=-1)
        return seen | {"memory": self.speaker.core.embed_fc(both)}

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        core = self.speaker.core
        readings = read_words(
            layers_of(core.layer), core.words(ids, 0), seen["memory"], seen_by_words(mask, padding=True)
        )
        reading = {"logits": self.speaker.logit(readings[-1].out)}
        for number, each in enumerate(readings, 1):
            # The means include padding, as published.
            reading |= {
                f"decoder_{number}": each.out,
                f"text_{number}": each.after_words.mean(dim=1),
                f"visual_{number}": each.after_memory.mean(dim=1),
            }
        last = len(readings)
        return reading | {
            "after_words": readings[-1].after_words,
            "text": reading[f"text_{last}"],
            "visual": reading[f"visual_{last}"],
        }

    def steps(self, seen: Seen, rows_per_pair: int) -> WordSteps:
        core = self.speaker.core
        return WordSteps(
            layers_of(core.layer), seen["memory"], rows_per_pair, embed=core.words, scores=self.speaker.logit
        )

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        mlp = self.change_detector.mlp
        first, second = (mlp(seen[f"tokens_{side}"].flatten(0, 1)) for side in ("before", "after"))
        losses = {"decorrelation": decorrelation(first, second, OFF_DIAGONAL)}
        if self.ccr_part:
            losses["ccr"] = diagonal_loss(ccr_logits(reading["text"], reading["visual"]))
        return losses

    def heat(self, seen: Seen) -> Tensor:
        """How much of a cell the other image does not explain."""
        return torch.stack([seen["difference_before"].norm(dim=-1), seen["difference_after"].norm(dim=-1)], dim=1)


def ccr_logits(text: Tensor, visual: Tensor) -> Tensor:
    """(pairs, pairs): words with what they looked at, symmetric, over the temperature."""
    return (text @ visual.T + visual @ text.T) / 2 / TEMPERATURE


class DirlCcr(Dirl):
    """DIRL+CCR."""

    title = "DIRL+CCR"
    published = "DIRL+CCR (2024)"
    weights: ClassVar[dict[str, float]] = {"decorrelation": 0.5, "ccr": 0.3}
    ccr_part = True
