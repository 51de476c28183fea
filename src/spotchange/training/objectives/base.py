"""What every objective is: a model and a loss over one batch. The loop knows no more than this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spotchange.config.objectives import DenseTruthSettings
from spotchange.errors import ConfigError
from spotchange.models.interface import VisualState
from spotchange.models.weights.folder import read_weights
from spotchange.pairs import PairBatch
from spotchange.training.objectives.auxiliary import DenseTruth


def in_full_precision(values: Tensor) -> AbstractContextManager[None]:
    """For similarities that are divided by a temperature or ranked: in bf16 neighbours of 1 lie 0.004 apart, at a scale
    of 100 half a unit, and a matrix product under autocast is bf16 whatever it is given."""
    return torch.autocast(values.device.type, enabled=False)


class Objective(nn.Module, ABC):
    """Holds the model under `model`; whatever else it owns is for training only and saved beside the weights.

    `forward(batch)` returns scalars by name; `loss` is minimised, the rest is logged. Every tensor
    has a static shape and nothing is fetched from the device, so the whole of it can be compiled.
    """

    metric = "loss"  # validated and selected on, unless the recipe names another
    speaks = False  # validation decodes captions and scores them
    ranks = False  # validation ranks captions for pairs and pairs for captions
    shares_before = False  # rows 2k and 2k + 1 of training batches show one image before; it is encoded once
    model: Any  # a CaptioningModel, for adaptation a RetrievalModel too; nn.Module hides methods from type checkers
    _scale: Tensor
    _shift: Tensor

    def __init__(self, model: nn.Module, *, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.model = model
        # Images travel as bytes; (x / 255 - mean) / std as one multiplication and one addition.
        self.register_buffer("_scale", (1.0 / (255.0 * torch.tensor(std))).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("_shift", (-torch.tensor(mean) / torch.tensor(std)).view(1, 3, 1, 1), persistent=False)

    def normalise(self, images: Tensor) -> Tensor:
        """Bytes to what the model reads; features of a frozen network are read as they are, in full precision."""
        if images.is_floating_point():
            return images.to(self._scale.dtype)
        return images.to(self._scale.dtype) * self._scale + self._shift

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """The model's view of byte images."""
        state: VisualState = self.model.encode(self.normalise(before), self.normalise(after))
        return state

    def encode_batch(self, batch: PairBatch) -> VisualState:
        """The model's view of all rows of a batch as it came from its source."""
        once = self.training and self.shares_before
        return self.encode(batch.before[::2] if once else batch.before, batch.after)

    def seen_embedding(self, batch: PairBatch) -> Tensor:
        """What a ranking objective compares with texts: one vector a row, of unit length."""
        embedding: Tensor = self.model.pair_embedding(self.encode(batch.before, batch.after))
        return embedding

    def build_truth(self, weights: DenseTruthSettings) -> DenseTruth:
        """Heads for the dense truth, as wide as this model's tokens."""
        missing = [
            f"model.heads.{name}"
            for name, needed in (("change", weights.change), ("patch_change", weights.mask))
            if needed and getattr(self.model, f"{name}_head", None) is None
        ]
        if missing:
            raise ConfigError(f"the dense truth trains heads this model lacks: set {' and '.join(missing)} to true")
        return DenseTruth(width=self.model.encoder.norm.normalized_shape[0], weights=weights)

    @abstractmethod
    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        """Losses of a batch, `loss` among them; in evaluation mode also what validation reports."""

    def after_step(self) -> None:
        """What must hold after every update of the weights."""

    def take_weights(self, folder: Path) -> None:
        """The model's weights from a folder that this stage has saved."""
        state = read_weights(folder)
        self.model.load_state_dict({name: value.float() for name, value in state.items()})
