"""IDC-PCL's fine-tuning: masked words with a causal mask on the text, and distractor judging.

Training sums both losses over words and pairs, as published, or takes their means; validation always takes means.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.config.objectives import PclFinetuneSettings
from spotchange.errors import ConfigError
from spotchange.pairs import PairBatch
from spotchange.training import distributed
from spotchange.training.objectives.pcl_base import PclObjective
from spotchange.training.objectives.pcl_losses import hide_words, word_loss


class PclFinetuneObjective(PclObjective):
    """Words from the images and the words before them; is there a change, from [IMG1] and [IMG2]."""

    metric = "CIDEr-D"
    speaks = True

    def __init__(self, model: nn.Module, settings: PclFinetuneSettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        self.settings = settings
        if settings.judging and self.model.change_head is None:
            raise ConfigError("distractor judging trains a head this model lacks: set model.heads.change to true")

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        state = self.encode(batch.before, batch.after)
        ids, mask = batch.caption_ids, batch.caption_mask
        summed = self.settings.reduction == "sum"
        if self.settings.positions == "every" or not self.training:
            outputs = self.model.read_beside_masks(state, ids[:, :-1])
            logits = self.model.word_logits(outputs, ids.shape[1] - 1)
            results = word_loss(logits, ids[:, 1:], mask[:, 1:], summed=summed and self.training)
        else:
            hidden = hide_words(
                ids,
                mask,
                share=self.settings.masked_words,
                vocabulary=len(self.model.words.words.weight),
                mask_id=self.model.words.mask_id,
                end_id=self.model.special.end,
            )
            outputs = self.model.read_causally(state, hidden.ids)
            logits = self.model.word_logits(outputs, ids.shape[1])
            results = word_loss(logits, ids, hidden.chosen, summed=summed)
        if self.settings.judging:
            # Images saw no words on the way, so judging reads what it reads without a sentence.
            verified = self._verification(
                self.model.verify_change(outputs[:, : state.tokens.shape[1]]).float(), batch.change_type
            )
            results |= {"words": results["loss"].detach(), **verified}
            results["loss"] = results["loss"] + self.settings.judging * verified["judging"]
        return results

    def _verification(self, logits: Tensor, change_type: Tensor) -> dict[str, Tensor]:
        """Two-way, or by kind of change for a head that names kinds; pairs of unknown kind do not count."""
        kinds = logits.shape[1]
        known = change_type >= 0 if kinds == 2 else (change_type >= 0) & (change_type < kinds)
        target = change_type.clamp(min=0, max=kinds - 1)
        each = F.cross_entropy(logits, target, reduction="none")
        right = ((logits.argmax(dim=1) != 0) == (target != 0)) & known
        total = (each * known).sum()
        summed = self.training and self.settings.reduction == "sum"
        return {
            "judging": distributed.global_sum(total) if summed else distributed.global_mean(total, known.sum()),
            "judging_accuracy": right.sum() / known.sum().clamp(min=1),
        }
