"""Fine-grained difference aligning: the true sentence among hard negatives, each read together with the pictures."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import VisualState


def aligned_scores(model: IdcPcl, state: VisualState, ids: Tensor, mask: Tensor) -> Tensor:
    """(N, sentences): cosine of the pictures' summary and each sentence's [CLS], both after reading that sentence.

    `ids` and `mask` are (N, sentences, words).
    """
    pairs, sentences = ids.shape[:2]
    repeated = VisualState(
        tokens=state.tokens.repeat_interleave(sentences, dim=0), grid=state.grid, features=state.features, extras={}
    )
    hidden = model.read_together(repeated, ids.flatten(0, 1), mask.flatten(0, 1))
    pictures = model.image_outputs(hidden[:, : state.tokens.shape[1]]).mean(dim=1)
    sentence = hidden[:, state.tokens.shape[1]]  # [CLS] follows the pictures
    return F.cosine_similarity(pictures.float(), sentence.float(), dim=-1).view(pairs, sentences)


def alignment_loss(scores: Tensor, *, temperature: float) -> dict[str, Tensor]:
    """Cross-entropy of the first sentence of `scores` (N, sentences), the true one, and how often it is the best."""
    truth = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    return {
        "loss": F.cross_entropy(scores / temperature, truth),
        "fda_accuracy": (scores.argmax(dim=1) == 0).float().mean(),
    }
