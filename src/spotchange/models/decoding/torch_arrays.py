"""`Arrays` on a torch device: nothing leaves it but, now and then, the answer to whether all sentences have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from spotchange.models.decoding.arrays import NEVER


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


# Fewer scores than this are read in no time; more are worth a kernel that must be compiled first.
_MANY_SCORES = 2**22

Chooser = Callable[[Tensor, int | None], tuple[Tensor, Tensor]]


def likeliest(scores: Tensor, forbidden: int | None = None) -> tuple[Tensor, Tensor]:
    """Ids and log-probabilities in fp32, both (rows,), from scores (rows, words) of any precision.

    The word `forbidden` is not chosen; the others' probabilities stay those of the model.
    """
    one_pass = _one_pass_kernel() if scores.is_cuda and scores.numel() >= _MANY_SCORES else None
    if one_pass is not None:
        return one_pass(scores, forbidden)
    log_probabilities = scores.log_softmax(dim=-1, dtype=torch.float32)
    if forbidden is not None:
        log_probabilities[:, forbidden] = NEVER
    best = log_probabilities.max(dim=-1)
    return best.indices, best.values


@cache
def _one_pass_kernel() -> Chooser | None:
    """The CUDA kernel, where there is all it takes; torch's own operations move ten times as many bytes."""
    try:
        from spotchange.models.decoding.argmax_kernel import likeliest_in_one_pass

        likeliest_in_one_pass(torch.zeros(1, 2, device="cuda"), None)
    except Exception:  # no Triton, no C compiler, a GPU it does not know: whatever it is, there is another way
        return None
    return likeliest_in_one_pass
