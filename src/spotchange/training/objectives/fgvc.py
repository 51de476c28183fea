"""Fine-grained classification beside captioning: same class close, the class itself, same class or not."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ClassHeads(nn.Module):
    """For training only: names a picture's class, and says whether two pictures share one."""

    def __init__(self, *, width: int, classes: int) -> None:
        super().__init__()
        self.classify = nn.Linear(width, classes)
        self.match = nn.Linear(2 * width, 2)

    def forward(self, alone: Tensor, together: Tensor, class_ids: Tensor, *, temperature: float) -> dict[str, Tensor]:
        """Losses from pictures read alone (N, 2, width) and as pairs (N, 2, width), with classes (N, 2)."""
        named = self.classify(alone).float()
        same = (class_ids[:, 0] == class_ids[:, 1]).long()
        losses = {
            "class_contrast": class_contrast(alone.flatten(0, 1), class_ids.flatten(), temperature=temperature),
            "classification": F.cross_entropy(named.flatten(0, 1), class_ids.flatten()),
            "matching": F.cross_entropy(self.match(together.flatten(1)).float(), same),
        }
        right = (named.argmax(dim=-1) == class_ids).float().mean()
        return {"loss": torch.stack(list(losses.values())).sum(), **losses, "class_accuracy": right}


def class_contrast(vectors: Tensor, class_ids: Tensor, *, temperature: float) -> Tensor:
    """Mean over all pictures of one class of -log of their share among all other pictures of the batch.

    A picture whose class nobody shares has nothing to come close to and does not count.
    """
    unit = F.normalize(vectors.float(), dim=-1)
    similarity = unit @ unit.T / temperature
    itself = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    chance = similarity - similarity.masked_fill(itself, float("-inf")).logsumexp(dim=1, keepdim=True)
    friends = (class_ids[:, None] == class_ids[None, :]) & ~itself
    each = -(chance * friends).sum(dim=1) / friends.sum(dim=1).clamp(min=1)
    counted = friends.any(dim=1)
    return (each * counted).sum() / counted.sum().clamp(min=1)
