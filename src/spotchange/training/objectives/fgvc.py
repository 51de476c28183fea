"""Fine-grained classification beside captioning: same class close, the class itself, same class or not."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.models.pcl_heads import ClassHeads


def class_losses(
    heads: ClassHeads, alone: Tensor, together: Tensor, class_ids: Tensor, *, margin: float
) -> dict[str, Tensor]:
    """Losses from pictures read alone (N, 2, width) and as pairs (N, 2, width), with classes (N, 2)."""
    named = heads.classify(alone).float()
    same = (class_ids[:, 0] == class_ids[:, 1]).long()
    losses = {
        "class_contrast": class_contrast(alone.flatten(0, 1), class_ids.flatten(), margin=margin),
        "classification": F.cross_entropy(named.flatten(0, 1), class_ids.flatten()),
        "matching": F.cross_entropy(heads.match(together.flatten(1)).float(), same),
    }
    right = (named.argmax(dim=-1) == class_ids).float().mean()
    return {"loss": torch.stack(list(losses.values())).sum(), **losses, "class_accuracy": right}


def class_contrast(vectors: Tensor, class_ids: Tensor, *, margin: float) -> Tensor:
    """Mean over all pairs of pictures, each with itself too: 1 - cosine in one class, else cosine above `margin`."""
    unit = F.normalize(vectors.float(), dim=-1)
    cosine = unit @ unit.T
    friends = class_ids[:, None] == class_ids[None, :]
    return torch.where(friends, 1 - cosine, (cosine - margin).clamp(min=0)).mean()
