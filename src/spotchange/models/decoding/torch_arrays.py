"""`Arrays` on a torch device: nothing leaves it but, now and then, the answer to whether all sentences have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from spotchange.models.decoding.argmax import likeliest


class TorchArrays:
    """See `arrays.Arrays`."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # Asking a GPU makes it wait; it would have made some more words meanwhile.
        self.words_between_looks = 1 if device.type == "cpu" else 4
        self._generator: torch.Generator | None = None

    def integers(self, shape: tuple[int, ...], value: int) -> Tensor:
        return torch.full(shape, value, dtype=torch.long, device=self.device)

    def floats(self, shape: tuple[int, ...], value: float) -> Tensor:
        return torch.full(shape, value, dtype=torch.float, device=self.device)

    def counting(self, count: int) -> Tensor:
        return torch.arange(count, device=self.device)

    def row(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float, device=self.device)

    def where(self, condition: Tensor, yes: Any, no: Any) -> Tensor:
        return torch.where(condition, yes, no)

    def join(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.cat([first, second], dim=1)

    def take(self, values: Tensor, places: Tensor) -> Tensor:
        return values.gather(1, places[:, :, None].expand(-1, -1, values.shape[2]) if values.ndim == 3 else places)

    def top(self, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
        best = values.topk(count, dim=1)
        return best.values, best.indices

    def log_softmax(self, scores: Tensor) -> Tensor:
        return scores.log_softmax(dim=-1, dtype=torch.float32)

    def likeliest(self, scores: Tensor, forbidden: int | None) -> tuple[Tensor, Tensor]:
        return likeliest(scores, forbidden)

    def sample(self, ranks: Tensor, *, temperature: float, top_p: float, seed: int, position: int) -> Tensor:
        if self._generator is None or position == 0:
            self._generator = torch.Generator(self.device).manual_seed(seed)
        probabilities = (ranks / temperature).softmax(dim=-1)
        if top_p < 1.0:
            ordered, places = probabilities.sort(dim=-1, descending=True)
            before = ordered.cumsum(dim=-1) - ordered  # what the likelier words already cover
            probabilities = torch.zeros_like(probabilities).scatter(1, places, ordered * (before < top_p))
        return torch.multinomial(probabilities, 1, generator=self._generator)[:, 0]
