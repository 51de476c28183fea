"""What IDC-PCL sees with: a grid network on each picture, or the pair encoder of CLIP4IDC."""

from __future__ import annotations

import torch
from torch import Tensor

from spotchange.models.vision.pair_encoder import PairEncoder
from spotchange.models.vision.resnet import GridNetwork


class GridFeatures(GridNetwork):
    """Raw ResNet features of both pictures."""

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Both pictures of every pair to (pairs, 2, cells, channels)."""
        return self.of_pictures(torch.cat([before, after])).unflatten(0, (2, len(before))).transpose(0, 1)


class PairFeatures(PairEncoder):
    """CLIP4IDC's pair encoder as eyes: patches after both pictures met, `encoder.*` named as in its checkpoints."""

    @property
    def channels(self) -> int:
        """Width of a patch."""
        return self.norm.normalized_shape[0]

    def forward(self, before: Tensor, after: Tensor) -> Tensor:  # type: ignore[override]
        """Both pictures of every pair to (pairs, 2, cells, channels)."""
        return super().forward(before, after)["inter"]
