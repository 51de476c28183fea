"""Captioning: the next word of the sentence, given the images and the words so far."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.config.objectives import CaptionSettings
from spotchange.errors import ConfigError
from spotchange.models.interface import VisualState
from spotchange.pairs import PairBatch
from spotchange.training import distributed
from spotchange.training.objectives.adapt import caption_keys, contrastive_loss
from spotchange.training.objectives.base import Objective

MAX_SCALE = 100.0  # CLIP's largest inverse temperature


class WordLosses(nn.Module):
    """Cross-entropy of every word in fp32, from scores (N, words, vocabulary) of any precision.

    A module, so that it can be compiled by itself: over CLIP's 49,408 words the scores are the largest tensor
    of a step by far, and torch's single operations write them out in fp32 four times.
    """

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(
            logits.flatten(0, 1).float(),
            targets.flatten(),
            reduction="none",
            label_smoothing=self.smoothing if self.training else 0.0,
        ).view(targets.shape)


class CaptionObjective(Objective):
    """Cross-entropy over the words; the heads for change and place can be kept in training beside it."""

    metric = "CIDEr-D"
    speaks = True

    def __init__(self, model: nn.Module, settings: CaptionSettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        self.settings = settings
        self.word_losses = WordLosses(settings.label_smoothing)
        self.truth = None if settings.dense is None else self.build_truth(settings.dense)
        self.ranks = settings.contrast > 0
        if self.ranks and getattr(model, "text_encoder", None) is None:
            raise ConfigError("objective.contrast needs a model that ranks", hint="set model.text.encoder to true")

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        state = self.encode_batch(batch)
        logits = self.model.caption_logits(state, batch.caption_ids[:, :-1])  # (N, words - 1, vocabulary)
        targets, counted = batch.caption_ids[:, 1:], batch.caption_mask[:, 1:]
        losses = self.word_losses(logits, targets)
        words = self._reduce(losses, counted, batch.change_type)
        results = {"loss": words}
        if not self.training:  # another pass over all words' scores, which training need not pay for
            right = (logits.argmax(dim=-1) == targets) & counted
            results["word_accuracy"] = right.sum() / counted.sum().clamp(min=1)
        if self.truth is not None:
            extra = self.truth(self.model, state, batch)
            results |= extra | {"words": words.detach()}
            results["loss"] = words + self.truth.weighted(extra)
        if self.settings.contrast:
            results["contrast"] = self._contrast(state, batch)
            results["loss"] = results["loss"] + self.settings.contrast * results["contrast"]
        return results

    def _contrast(self, state: VisualState, batch: PairBatch) -> Tensor:
        """Adaptation's loss over all rows; the sentences that deny a change are one, for they mean the same."""
        texts = self.model.embed_text(batch.caption_ids, batch.caption_mask)
        keys = torch.where(batch.change_type == 0, -1, caption_keys(batch))
        return 0.5 * contrastive_loss(self.model.pair_embedding(state), texts, self.model.logit_scale.exp(), keys)

    @torch.no_grad()
    def after_step(self) -> None:
        """Hold the learnable scale under its limit."""
        if self.ranks:
            self.model.logit_scale.clamp_(max=math.log(MAX_SCALE))

    def _reduce(self, losses: Tensor, counted: Tensor, change_type: Tensor) -> Tensor:
        if self.settings.distractors == "mean":
            return distributed.global_mean((losses * counted).sum(), counted.sum())
        parts = []
        for rows in (change_type != 0, change_type == 0):
            chosen = counted & rows[:, None]
            parts.append(distributed.global_mean((losses * chosen).sum(), chosen.sum()))
        return parts[0] + parts[1]
