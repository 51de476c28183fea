"""Which kind of change the signs of a pair speak for: a small network in numpy, fitted on composited pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spotchange.errors import ModelError
from spotchange.everyday.kinds import KINDS
from spotchange.everyday.recognition.evidence import softmax

FILE = "kinds.npz"
_FURTHEST = 4.0  # standard deviations: what lies beyond is unlike anything that was fitted on, and counts as this

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class KindModel:
    """Several networks of two hidden layers each, whose probabilities are averaged."""

    names: tuple[str, ...]  # of the signs, in order
    mean: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]  # weights (networks, outputs, inputs) and offsets (networks, outputs)

    @classmethod
    def read(cls, folder: Path) -> KindModel:
        """From the recognisers' folder."""
        try:
            with np.load(folder / FILE, allow_pickle=False) as stored:
                values = {name: stored[name] for name in stored.files}
            layers = [
                (values[f"weight{each}"].astype(np.float32), values[f"offset{each}"].astype(np.float32))
                for each in range(3)
            ]
            names = tuple(str(name) for name in values["names"])
            return cls(names, values["mean"], values["scale"], tuple(layers))
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{folder / FILE} cannot be read: {error}") from None

    def __call__(self, signs: Mapping[str, float]) -> dict[str, float]:
        """The probability of every kind."""
        values = np.array([signs[name] for name in self.names], np.float32)
        start = np.clip((np.nan_to_num(values) - self.mean) / self.scale, -_FURTHEST, _FURTHEST)
        hidden = np.broadcast_to(start, (len(self.layers[0][0]), len(start)))
        for number, (weight, offset) in enumerate(self.layers):
            hidden = np.einsum("noi,ni->no", weight, hidden) + offset
            if number < len(self.layers) - 1:
                hidden = np.maximum(hidden, 0)
        return dict(zip(KINDS, softmax(hidden).mean(axis=0).tolist(), strict=True))
