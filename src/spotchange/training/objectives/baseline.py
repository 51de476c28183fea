"""A published system's own objective: words of change and distractor pairs, half each, and its auxiliary losses."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from spotchange.config.objectives import BaselineObjectiveSettings
from spotchange.errors import ConfigError
from spotchange.models.baselines.skeleton import Baseline
from spotchange.pairs import PairBatch
from spotchange.training import distributed
from spotchange.training.objectives.base import Objective
from spotchange.training.objectives.caption import WordLosses


class BaselineObjective(Objective):
    """One loss for all systems; which auxiliary parts there are, the system says."""

    metric = "CIDEr-D"
    speaks = True
    model: Baseline

    def __init__(
        self, model: nn.Module, settings: BaselineObjectiveSettings, *, paired: bool, **normalisation: tuple[float, ...]
    ) -> None:
        if not isinstance(model, Baseline):
            raise ConfigError("this objective trains the published systems only: set model.architecture to baseline")
        super().__init__(model, **normalisation)
        unknown = sorted(set(settings.weights) - set(model.system.weights))
        if unknown:
            known = ", ".join(model.system.weights) or "none"
            raise ConfigError(f"stage.objective.weights: no loss is called {', '.join(unknown)}; there are: {known}")
        self.paired = paired
        self.weights = {name: w for name, w in (model.system.weights | settings.weights).items() if w}
        self.swap = model.system.swap if settings.swap is None else settings.swap
        self.word_losses = WordLosses(0.0)

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        if self.training and self.paired and self.swap:
            batch = exchange_distractors(batch, self.swap)
        state = self.encode(batch.before, batch.after)
        seen = state.extras
        ids, mask = batch.caption_ids[:, :-1], batch.caption_mask[:, :-1]
        targets, counted = batch.caption_ids[:, 1:], batch.caption_mask[:, 1:]
        reading = self.model.system.read(seen, ids, mask)
        losses = self.word_losses(reading["logits"], targets)
        if not self.training:
            right = (reading["logits"].argmax(dim=-1) == targets) & counted
            words = distributed.global_mean((losses * counted).sum(), counted.sum())
            return {"loss": words, "word_accuracy": right.sum() / counted.sum().clamp(min=1)}
        # Change and distractor rows stand in turn; contrasts are among rows of one kind, as published.
        groups = [(slice(0, None, 2), True), (slice(1, None, 2), False)] if self.paired else [(slice(None), True)]
        words = torch.stack(
            [distributed.global_mean((losses[rows] * counted[rows]).sum(), counted[rows].sum()) for rows, _ in groups]
        ).mean()
        results = {"loss": words, "words": words.detach()}
        if not self.weights:
            return results
        for name, value in self._auxiliary(seen, reading, ids, mask, groups).items():
            results["loss"] = results["loss"] + self.weights[name] * value
            results[name] = value.detach()
        return results

    def _auxiliary(
        self,
        seen: dict[str, Tensor],
        reading: dict[str, Tensor],
        ids: Tensor,
        mask: Tensor,
        groups: list[tuple[slice, bool]],
    ) -> dict[str, Tensor]:
        """Each loss as the mean over the groups that have it."""
        found: dict[str, list[Tensor]] = {}
        for rows, changed in groups:
            part = {name: value[rows] for name, value in seen.items()}
            read = {name: value[rows] for name, value in reading.items()}
            losses = self.model.system.auxiliary(part, read, ids[rows], mask[rows], changed=changed)
            for name, value in losses.items():
                if name in self.weights:
                    found.setdefault(name, []).append(value)
        return {name: torch.stack(values).mean() for name, values in found.items()}

    @torch.no_grad()
    def after_step(self) -> None:
        self.model.system.after_step()


def exchange_distractors(batch: PairBatch, probability: float) -> PairBatch:
    """With `probability`, a scene's image before and its distractor change places, for both of its rows."""
    chosen = torch.rand(len(batch) // 2, device=batch.before.device) < probability
    pick = chosen.view(-1, *([1] * (batch.before.ndim - 1)))
    before, after, distractor = batch.before[::2], batch.after[::2], batch.after[1::2]
    first = torch.where(pick, distractor, before)
    second = torch.where(pick, before, distractor)
    return replace(
        batch,
        before=first.repeat_interleave(2, dim=0),
        after=torch.stack([after, second], dim=1).flatten(0, 1),
    )
