"""The Transformer speaker of Tu's family (NCT, SCORER, SMART): no output projections, an odd feed-forward residual."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.baselines.attention import Attention, KeysValues, SplitAttention, seen_by_words
from spotchange.models.baselines.skeleton import Reading, Seen, System
from spotchange.models.baselines.transformer import LayerReading, WordSteps, layers_of, read_words, with_sinusoid

EPS = 1e-6
DROPOUT = 0.1


class Dense(nn.Module):
    """A linear layer with, where asked, the norm behind it."""

    def __init__(self, width: int, *, norm: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        if norm:
            self.LayerNorm = nn.LayerNorm(width, eps=EPS)


class TuLayer(nn.Module):
    """Post-norm; y = GELU(W x), out = LayerNorm(W' y + y): the residual is y, not x, as published."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.self_attention = SplitAttention(width, heads, dropout=DROPOUT)
        self.norm1 = nn.LayerNorm(width, eps=EPS)
        self.dec_enc_attention = SplitAttention(width, heads, dropout=DROPOUT)
        self.norm2 = nn.LayerNorm(width, eps=EPS)
        self.hidden_intermediate = Dense(width, norm=False)
        self.output = Dense(width, norm=True)

    @property
    def to_words(self) -> Attention:
        return self.self_attention

    @property
    def to_memory(self) -> Attention:
        return self.dec_enc_attention

    def forward(self, x: Tensor, own: KeysValues, visual: KeysValues, mask: Tensor | None) -> LayerReading:
        after_words = self.norm1(x + self.to_words.attend(self.to_words.queries(x), own, mask))
        seen = self.to_memory.attend(self.to_memory.queries(after_words), visual)
        after_memory = self.norm2(after_words + self.gate(after_words, seen))
        inner = F.gelu(self.hidden_intermediate.dense(after_memory))
        grown = F.dropout(self.output.dense(inner), DROPOUT, self.training)
        return LayerReading(self.output.LayerNorm(grown + inner), after_words, after_memory)

    def gate(self, words: Tensor, seen: Tensor) -> Tensor:
        """What of the memory comes through; all of it here."""
        return seen


class TuCore(nn.Module):
    """Words of 300 channels with sines and cosines, a linear layer with its norm, and the layers."""

    layer_type: type[TuLayer] = TuLayer

    def __init__(self, vocabulary: int, *, width: int, word: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, word)
        self.fc = nn.Sequential(nn.Linear(word, width), nn.Dropout(DROPOUT), nn.LayerNorm(width, eps=EPS))
        self.layer = nn.ModuleList(self.layer_type(width, heads) for _ in range(layers))

    def words(self, ids: Tensor, first: int) -> Tensor:
        """Embedded words from place `first` on."""
        embedded: Tensor = self.fc(with_sinusoid(self.embed(ids), first))
        return embedded


class TuSpeaker(nn.Module):
    """The core and the scores; weights begin as N(0, 0.02)."""

    def __init__(self, vocabulary: int, *, width: int, word: int = 300, heads: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.core = self.make_core(vocabulary, width=width, word=word, heads=heads, layers=layers)
        self.logit = nn.Linear(width, vocabulary)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def make_core(self, vocabulary: int, **sizes: int) -> TuCore:
        """The core; systems with further heads have their own."""
        return TuCore(vocabulary, **sizes)

    def forward(self, memory: Tensor, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Scores of the next words, `states` and every layer's output; padded words are hidden from all others."""
        seen = seen_by_words(mask, padding=True)
        readings = read_words(layers_of(self.core.layer), self.core.words(ids, 0), memory, seen)
        made = {f"decoder_{number}": each.out for number, each in enumerate(readings, 1)}
        last = readings[-1]
        return made | {"logits": self.logit(last.out), "states": last.out, "after_words": last.after_words}

    def steps(self, memory: Tensor, rows_per_pair: int) -> WordSteps:
        return WordSteps(layers_of(self.core.layer), memory, rows_per_pair, embed=self.core.words, scores=self.logit)


class TuSystem(System):
    """What the family's systems share: a detector gives `memory`, and this speaker reads it."""

    change_detector: nn.Module
    speaker: TuSpeaker

    def look(self, before: Tensor, after: Tensor) -> Seen:
        seen: Seen = self.change_detector(before, after)
        return seen

    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        reading: Reading = self.speaker(seen["memory"], ids, mask)
        return reading

    def steps(self, seen: Seen, rows_per_pair: int) -> WordSteps:
        return self.speaker.steps(seen["memory"], rows_per_pair)


def mean_of_words(states: Tensor, mask: Tensor) -> Tensor:
    """(pairs, width): the sum over true words, divided by all places, as published."""
    return (states * mask[..., None]).sum(dim=1) / mask.shape[1]
