"""Pre-training on dense labels: everything the renderer knows about a generated pair."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.config.objectives import DenseSettings
from spotchange.models.interface import VisualState
from spotchange.pairs import PairBatch
from spotchange.training.objectives.base import Objective


class DenseObjective(Objective):
    """Attributes on the intra patches, changed or not on the inter patches, kind and answer on the class tokens."""

    metric = "exact"

    def __init__(self, model: nn.Module, settings: DenseSettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        self.truth = self.build_truth(settings.weights)

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        state = self.encode_batch(batch)
        losses = self.truth(self.model, state, batch)
        results = {"loss": self.truth.weighted(losses), **losses}
        if not self.training:
            results |= self._accuracies(state, batch)
        return results

    def _accuracies(self, state: VisualState, batch: PairBatch) -> dict[str, Tensor]:
        """Shares of pairs with the right kind, and with kind and every attribute right."""
        kind = self.model.change_logits(state).argmax(dim=-1)
        right = kind == batch.change_type
        results = {
            "changed_accuracy": ((kind != 0) == (batch.change_type != 0)).float().mean(),
            "type_accuracy": right.float().mean(),
        }
        if batch.answer is not None:
            answers = torch.stack([part.argmax(dim=-1) for part in self.truth.answer_logits(state)], dim=-1)
            exact = right & ((answers == batch.answer) | (batch.answer < 0)).all(dim=-1)
            results["exact"] = exact.float().mean()
        return results
