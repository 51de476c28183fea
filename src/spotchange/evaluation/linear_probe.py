"""What a frozen network's features tell to a linear classifier: ridge regression to one-hot classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def probe_accuracy(
    features: Tensor, labels: Tensor, held_out: Tensor, truth: Tensor, *, classes: int, ridge: float = 1e-3
) -> float:
    """Share of held-out rows that a linear classifier fitted on the other rows gets right.

    Args:
        features: (rows, width) to fit on.
        labels: int64 (rows,).
        held_out: (other rows, width).
        truth: int64 (other rows,).
        classes: How many there are.
        ridge: Penalty on the weights, as a part of the features' mean square.
    """
    mean, scale = features.mean(0), features.std(0).clamp_min(1e-6)
    weights, bias = _fit((features - mean) / scale, F.one_hot(labels, classes).to(features.dtype), ridge)
    guesses = (((held_out - mean) / scale) @ weights + bias).argmax(1)
    return float((guesses == truth).float().mean())


def majority_accuracy(labels: Tensor, truth: Tensor) -> float:
    """What the commonest class alone gets right: below this, features tell nothing."""
    return float((truth == labels.mode().values).float().mean())


def _fit(features: Tensor, targets: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    bias = targets.mean(0)
    square = features.T @ features
    square += ridge * len(features) * torch.eye(len(square), device=square.device, dtype=square.dtype)
    return torch.linalg.solve(square, features.T @ (targets - bias)), bias
