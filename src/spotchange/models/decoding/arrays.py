"""The few array operations a search needs, on numpy; `torch_arrays` has the same on a device.

With these the search is written once for every runtime: it stays on the GPU where torch decodes, and needs no torch
where onnxruntime does. Everything else (arithmetic, comparison, slices, `reshape`) numpy and torch spell alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

NEVER = -1e9  # given to words that must not win; not infinite, or 0 * -inf would give nan
_WORTH_PARTING = 1024  # fewer values are sorted as fast
Array = Any  # a numpy array or a torch tensor: whatever the runtime's scores are


class Arrays(Protocol):
    """Where a search keeps its sentences; places and tops are along axis 1."""

    words_between_looks: int  # how often it is worth asking whether all sentences have ended

    def integers(self, shape: tuple[int, ...], value: int) -> Array: ...

    def floats(self, shape: tuple[int, ...], value: float) -> Array: ...

    def counting(self, count: int) -> Array: ...

    def row(self, values: Sequence[float]) -> Array: ...

    def where(self, condition: Array, yes: Any, no: Any) -> Array: ...

    def join(self, first: Array, second: Array) -> Array: ...

    def take(self, values: Array, places: Array) -> Array:
        """`values` (rows, n[, width]) at `places` (rows, k)."""
        ...

    def top(self, values: Array, count: int) -> tuple[Array, Array]:
        """The largest of each row, best first, and their places."""
        ...

    def log_softmax(self, scores: Array) -> Array:
        """In fp32, whatever the scores are."""
        ...

    def likeliest(self, scores: Array, forbidden: int | None) -> tuple[Array, Array]:
        """The best allowed word of each row and its log-probability."""
        ...

    def sample(self, ranks: Array, *, temperature: float, top_p: float, seed: int, position: int) -> Array:
        """One word per row, drawn from the most likely words that together have probability `top_p`."""
        ...


class NumpyArrays:
    """`Arrays` on numpy."""

    words_between_looks = 1

    def integers(self, shape: tuple[int, ...], value: int) -> npt.NDArray[np.int64]:
        return np.full(shape, value, np.int64)

    def floats(self, shape: tuple[int, ...], value: float) -> npt.NDArray[np.float32]:
        return np.full(shape, value, np.float32)

    def counting(self, count: int) -> npt.NDArray[np.int64]:
        return np.arange(count)

    def row(self, values: Sequence[float]) -> npt.NDArray[np.float32]:
        return np.asarray(values, np.float32)

    def where(self, condition: Array, yes: Any, no: Any) -> Array:
        return np.where(condition, yes, no)

    def join(self, first: Array, second: Array) -> Array:
        return np.concatenate([first, second], axis=1)

    def take(self, values: Array, places: Array) -> Array:
        return values[np.arange(len(places))[:, None], places]  # a third of what `take_along_axis` takes

    def top(self, values: Array, count: int) -> tuple[Array, Array]:
        some = None
        if values.shape[1] > _WORTH_PARTING:
            some = np.sort(np.argpartition(-values, count - 1, axis=1)[:, :count], axis=1)
            values = self.take(values, some)
        order = np.argsort(-values, axis=1, kind="stable")[:, :count]  # of equals the first
        return self.take(values, order), order if some is None else self.take(some, order)

    def log_softmax(self, scores: Array) -> npt.NDArray[np.float32]:
        shifted = scores.astype(np.float32) - scores.max(axis=-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

    def likeliest(self, scores: Array, forbidden: int | None) -> tuple[Array, Array]:
        log_probabilities = self.log_softmax(scores)
        if forbidden is not None:
            log_probabilities[:, forbidden] = NEVER
        ids = log_probabilities.argmax(axis=-1)
        return ids, np.take_along_axis(log_probabilities, ids[:, None], axis=1)[:, 0]

    def sample(self, ranks: Array, *, temperature: float, top_p: float, seed: int, position: int) -> Array:
        probabilities = np.exp(self.log_softmax(ranks / temperature).astype(np.float64))
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        ordered = np.take_along_axis(probabilities, order, axis=-1)
        before = ordered.cumsum(axis=-1) - ordered  # what the likelier words already cover
        reached = np.where(before < top_p, ordered, 0).cumsum(axis=-1)
        drawn = np.random.default_rng((seed, position)).random((len(ranks), 1)) * reached[:, -1:]
        places = np.minimum((reached <= drawn).sum(axis=-1), ranks.shape[-1] - 1)
        return np.take_along_axis(order, places[:, None], axis=-1)[:, 0]
