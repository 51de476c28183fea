"""What every captioning model offers; `Captioner`, `evaluate` and training's validation know only this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class VisualState:
    """What `encode` saw, for a batch of N pairs. Models may subclass it with what their decoder needs."""

    tokens: Tensor  # (N, 2 * (patches + 1), width): before's class token and patches, then after's
    grid: tuple[int, int]  # rows, columns of patches in one image
    features: Tensor  # (N, feature width): one vector a pair, for familiarity and nearest neighbours
    extras: dict[str, Tensor]  # named by the model: e.g. "intra" (N, 2, patches, width)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, kw_only=True)
class Generated:
    """Sentences as token ids; without BOS, EOS and everything after it is padding."""

    ids: Tensor  # int64 (N, candidates, words), best candidate first
    log_probabilities: Tensor  # float32 (N, candidates, words): of each token, 0 on padding
    lengths: Tensor  # int64 (N, candidates): tokens counted, the end token included


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How words are chosen."""

    method: str = "greedy"  # greedy, beam, sample
    beams: int = 1
    candidates: int = 1  # sentences returned a pair
    max_words: int = 32
    min_words: int = 0
    length_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    word_penalties: tuple[tuple[int, float], ...] = ()  # (token id, what is taken off its score)


class CaptioningModel(Protocol):
    """Images come as float (N, 3, H, W), already resized and normalised by the model's preprocessor."""

    image_size: tuple[int, int]  # height, width

    def encode(self, before: Tensor, after: Tensor) -> VisualState: ...

    def generate(self, state: VisualState, options: DecodingOptions) -> Generated: ...

    def change_logits(self, state: VisualState) -> Tensor | None:
        """(N, change types), "none" first; None if the model has no such head."""
        ...

    def heatmap(self, state: VisualState) -> Tensor:
        """(N, 2, rows, columns) in [0, 1]: where in before and after the change is seen."""
        ...


class RetrievalModel(Protocol):
    """Models that can also rank captions for a pair and pairs for a caption."""

    def embed_pair(self, before: Tensor, after: Tensor) -> Tensor: ...  # (N, width), unit length

    def embed_text(self, ids: Tensor, mask: Tensor) -> Tensor: ...  # (N, width), unit length
