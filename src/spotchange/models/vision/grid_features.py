"""What IDC-PCL sees with: a CNN backbone on each image, features of one, or the pair encoder of CLIP4IDC."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.vision.pair_encoder import PairEncoder
from spotchange.models.vision.resnet import GridNetwork


class GridFeatures(GridNetwork):
    """Raw ResNet features of both images."""

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Both images of every pair to (pairs, 2, cells, channels)."""
        cells: Tensor = self.of_images(torch.cat([before, after])).unflatten(0, (2, len(before))).transpose(0, 1)
        return cells


class FeaturesOnly(nn.Module):
    """No backbone: an imported model reads grid features that some network made elsewhere."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Features of both images (pairs, cells, channels) to (pairs, 2, cells, channels)."""
        if before.ndim != 3:
            raise ModelError(
                "this model has no network of its own and reads grid features, not images",
                hint="import it again with --resnet FOLDER, the network its features came from",
            )
        return torch.stack([before, after], dim=1)


class PairFeatures(PairEncoder):
    """CLIP4IDC's pair encoder as backbone: patches after both images met, `encoder.*` named as in its checkpoints."""

    @property
    def channels(self) -> int:
        """Width of a patch."""
        return self.norm.normalized_shape[0]

    def forward(self, before: Tensor, after: Tensor) -> Tensor:  # type: ignore[override]
        """Both images of every pair to (pairs, 2, cells, channels)."""
        return super().forward(before, after)["inter"]
