"""Everyday images: kind and place of the change, the frame of the sentence, and the names of things."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.config.objectives import EverydaySettings
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.stream import EverydayBatch
from spotchange.everyday.truth import cut_windows
from spotchange.models.interface import VisualState
from spotchange.pairs import PairBatch
from spotchange.training import distributed
from spotchange.training.objectives.base import Objective

_ROOM = (1.1, 1.75)  # how much wider than the thing a training window is
_STRAY = 0.12  # how far its middle may be off, in parts of the thing
_SURE = 0.92
_LIGHT = 0.2  # how much its brightness may differ


class EverydayObjective(Objective):
    """All losses over one batch of the everyday stream."""

    metric = "score"
    _lineage: Tensor
    _membership: Tensor

    def __init__(self, model: nn.Module, settings: EverydaySettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        self.settings = settings
        tree = everyday_nouns()
        deepest = max(tree.depth(noun) for noun in range(len(tree.names)))
        # Nouns from the most special to the most general, the last repeated: every noun has a row of one length.
        rows = [tree.lineage(noun) for noun in range(len(tree.names))]
        rows.append([len(tree.names)])  # things without a name are a kind of nothing
        lineage = [row + [row[-1]] * (deepest - len(row)) for row in rows]
        membership = torch.eye(len(rows))
        membership[:-1, :-1] = torch.from_numpy(tree.membership())
        self.register_buffer("_lineage", torch.tensor(lineage), persistent=False)
        self.register_buffer("_membership", membership, persistent=False)
        width = self.model.encoder.norm.normalized_shape[0]
        self.patch_nouns = nn.Linear(width, len(rows)) if settings.patches else None

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        batch = cast(EverydayBatch, batch)
        state = self.encode_batch(batch)
        weights = self.settings
        kinds = self.model.change_logits(state).float()
        heat = self.model.patch_change_logits(state).float()
        nouns, colours = self._second_look(batch)
        losses = {
            "change": _cross_entropy(kinds, batch.change_type),
            "mask": self._mask_loss(heat, batch),
            "words": self._word_loss(state, batch),
            "nouns": self._noun_loss(nouns, batch.window_nouns.flatten()),
            "colours": _cross_entropy(colours, batch.window_colours.flatten()),
        }
        if self.patch_nouns is not None:
            losses["patches"] = self._patch_loss(self.patch_nouns, state, batch)
        total = torch.stack([getattr(weights, name) * loss for name, loss in losses.items()]).sum()
        results = {"loss": total, **losses}
        return results if self.training else results | self._accuracies(kinds, heat, nouns, batch)

    def _mask_loss(self, heat: Tensor, batch: EverydayBatch) -> Tensor:
        assert batch.change_mask is not None
        truth = batch.change_mask.float()
        each = F.binary_cross_entropy_with_logits(heat, truth, reduction="none")
        # A small thing covers two patches of 648: they count for more than their number.
        each = each * (1 + 4 * truth)
        return _mean_where(each.mean(dim=(1, 2)), batch.mask_known)

    def _word_loss(self, state: VisualState, batch: EverydayBatch) -> Tensor:
        logits = self.model.caption_logits(state, batch.caption_ids[:, :-1]).float()
        targets = batch.caption_ids[:, 1:]
        counted = batch.caption_mask[:, 1:] & (batch.change_type >= 0)[:, None]
        each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
        return _mean_where(each, counted)

    def _patch_loss(self, head: nn.Module, state: VisualState, batch: EverydayBatch) -> Tensor:
        # Every third patch is enough, and the scores of all would be the largest tensor of the step.
        start = 1
        logits = head(state.extras["intra"][:, :, start::3]).float()
        return _cross_entropy(logits.flatten(0, 2), batch.patch_nouns[:, :, start::3].flatten())

    def _second_look(self, batch: EverydayBatch) -> tuple[Tensor, Tensor]:
        """Scores of the things in the windows, both images' one after the other as `flatten` has them."""
        boxes = batch.windows.flatten(0, 1)
        side = torch.maximum(boxes[:, 2], boxes[:, 3])
        if self.training:
            chance = torch.rand(len(boxes), 5, device=boxes.device)
            room = _ROOM[0] + (_ROOM[1] - _ROOM[0]) * chance[:, 0]
            stray = (chance[:, 1:3] * 2 - 1) * _STRAY * side[:, None]
            light = 1 + (chance[:, 3] * 2 - 1) * _LIGHT
        else:
            room, light = torch.full_like(side, 1.35), torch.ones_like(side)
            stray = torch.zeros_like(boxes[:, :2])
        side = (side * room).clamp(min=0.08)
        boxes = torch.cat([boxes[:, :2] + stray, side[:, None], side[:, None]], dim=1)
        images = self.normalise(torch.stack([batch.before, batch.after], dim=1).flatten(0, 1))
        windows = cut_windows(images, boxes, size=self.settings.window) * light[:, None, None, None]
        if self.training:
            windows = torch.where((chance[:, 4] < 0.5)[:, None, None, None], windows.flip(3), windows)
        nouns, colours = self.model.name_windows(windows)
        return nouns.float(), colours.float()

    def _noun_loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """The mean over all that the thing may be called, from its own noun to the family."""
        with torch.autocast(logits.device.type, enabled=False):  # small chances need their digits
            chances = logits.softmax(dim=-1) @ self._membership.T  # of being this or a kind of it
        lineage = self._lineage[target.clamp(min=0)]
        # Sure enough is enough: two thousand things are soon known by heart, and their names said too surely.
        said = chances.gather(1, lineage).clamp(min=1e-6, max=_SURE).log()
        return _mean_where(-said.mean(dim=1), target >= 0)

    def _accuracies(self, kinds: Tensor, heat: Tensor, nouns: Tensor, batch: EverydayBatch) -> dict[str, Tensor]:
        assert batch.change_mask is not None
        known = batch.change_type >= 0
        kind = kinds.argmax(dim=-1)
        placed = batch.change_mask.any(dim=(1, 2)) & known
        hottest = heat.flatten(1).argmax(dim=1, keepdim=True)
        on_it = batch.change_mask.flatten(1).gather(1, hottest)[:, 0]
        target = batch.window_nouns.flatten()
        best = nouns.argmax(dim=-1)
        family = self._lineage[:, -1]
        results = {
            "changed_accuracy": _mean_where(((kind != 0) == (batch.change_type != 0)).float(), known),
            "type_accuracy": _mean_where((kind == batch.change_type).float(), known),
            "pointing": _mean_where(on_it.float(), placed),
            "noun_accuracy": _mean_where((best == target).float(), target >= 0),
            "family_accuracy": _mean_where((family[best] == family[target.clamp(min=0)]).float(), target >= 0),
        }
        results["score"] = torch.stack(list(results.values())).mean()
        return results


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    each = F.cross_entropy(logits, target.clamp(min=0), reduction="none")
    return _mean_where(each, target >= 0)


def _mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    # A product, not an index: shapes stay static, which torch.compile needs.
    return distributed.global_mean((values * chosen).sum(), chosen.sum())
