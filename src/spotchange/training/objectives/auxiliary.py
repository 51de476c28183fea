"""Auxiliary losses on dense labels from the renderer: what stands in each patch, which patch changed, the answer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.config.objectives import DenseTruthSettings
from spotchange.models.interface import VisualState
from spotchange.pairs import PairBatch
from spotchange.scene import ATTRIBUTE_VALUES, COLORS, MATERIALS
from spotchange.training import distributed

PATCH_CLASSES = [len(values) + 1 for values in ATTRIBUTE_VALUES]  # the last class is "no object here"
ANSWER_CLASSES = [*(len(values) for values in ATTRIBUTE_VALUES), len(COLORS), len(MATERIALS)]


class DenseTruth(nn.Module):
    """Two linear heads of its own, for training only; the change and patch heads belong to the model."""

    def __init__(self, *, width: int, weights: DenseTruthSettings) -> None:
        super().__init__()
        self.weights = weights
        self.attribute_head = nn.Linear(width, sum(PATCH_CLASSES))
        self.answer_head = nn.Linear(2 * width, sum(ANSWER_CLASSES))

    def forward(
        self, model: Any, state: VisualState, batch: PairBatch, mask_known: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Losses by name, unweighted; `mask_known` (N,) tells rows whose change mask fits the images."""
        losses = {}
        if self.weights.attributes and batch.patch_attributes is not None:
            losses["attributes"] = self._attributes(state, batch.patch_attributes)
        if self.weights.mask and batch.change_mask is not None:
            losses["mask"] = _mask_loss(model.patch_change_logits(state), batch.change_mask, mask_known)
        if self.weights.change:
            losses["change"] = _masked_cross_entropy(model.change_logits(state), batch.change_type)
        if self.weights.answer and batch.answer is not None:
            losses["answer"] = self._answer(state, batch.answer)
        return losses

    def weighted(self, losses: dict[str, Tensor]) -> Tensor:
        """The sum to minimise."""
        return torch.stack([loss * getattr(self.weights, name) for name, loss in losses.items()]).sum()

    def answer_logits(self, state: VisualState) -> tuple[Tensor, ...]:
        """Six predictions about the changed object, from both class tokens."""
        logits: Tensor = self.answer_head(class_tokens(state))
        return torch.split(logits.float(), ANSWER_CLASSES, dim=-1)

    def _attributes(self, state: VisualState, truth: Tensor) -> Tensor:
        logits = self.attribute_head(state.extras["intra"]).float()  # (N, 2, patches, classes)
        seen = truth[..., 0] >= 0
        total = torch.zeros((), device=logits.device)
        for which, part in enumerate(logits.split(PATCH_CLASSES, dim=-1)):
            target = torch.where(seen, truth[..., which].long(), PATCH_CLASSES[which] - 1)
            each = F.cross_entropy(part.flatten(0, 2), target.flatten(), reduction="none").view(seen.shape)
            # Objects cover a small part of an image; half the weight for them keeps "nothing here" from winning.
            total = total + _mean_where(each, seen) + _mean_where(each, ~seen)
        return total / 2

    def _answer(self, state: VisualState, truth: Tensor) -> Tensor:
        parts = [_masked_cross_entropy(part, truth[:, which]) for which, part in enumerate(self.answer_logits(state))]
        return torch.stack(parts).sum()


def class_tokens(state: VisualState) -> Tensor:
    """Both images' class tokens side by side."""
    return state.extras["classes"].flatten(1)  # (N, 2 width)


def _mask_loss(logits: Tensor, mask: Tensor, known: Tensor | None) -> Tensor:
    each = F.binary_cross_entropy_with_logits(logits.float(), mask.float(), reduction="none")  # (N, 2, patches)
    rows = torch.ones(len(each), dtype=torch.bool, device=each.device) if known is None else known
    return _mean_where(each, rows[:, None, None].expand_as(each))


def _masked_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    each = F.cross_entropy(logits.float(), target.clamp(min=0), reduction="none")
    return _mean_where(each, target >= 0)


def _mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    # A product, not an index: shapes stay static, which torch.compile needs.
    return distributed.global_mean((values * chosen).sum(), chosen.sum())
