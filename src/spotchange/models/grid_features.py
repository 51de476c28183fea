"""What IDC-PCL sees with: a grid network on each picture, or the pair encoder of CLIP4IDC."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from spotchange.models.grid import resnet
from spotchange.models.pair_encoder import PairEncoder


class GridFeatures(nn.Module):
    """Raw ResNet features; with `frozen` no gradients, and its batch statistics do not move.

    With `fixed_statistics` only these stay.
    """

    def __init__(
        self,
        *,
        depths: tuple[int, ...],
        channels: tuple[int, ...],
        stage: int,
        stride_first: bool,
        frozen: bool,
        fixed_statistics: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.frozen, self.fixed_statistics = frozen, frozen or fixed_statistics
        self.network = resnet(
            depths=depths, channels=channels, stage=stage, stride_first=stride_first, pretrained=pretrained
        )
        self.channels = channels[stage - 1]
        if frozen:
            self.network.requires_grad_(False)

    def train(self, mode: bool = True) -> GridFeatures:
        super().train(mode)
        if self.fixed_statistics:
            self.network.eval()
        return self

    def of_pictures(self, pictures: Tensor) -> Tensor:
        """(pictures, 3, height, width) to (pictures, cells, channels)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            planes: Tensor = self.network(pictures).feature_maps[-1]
        return planes.flatten(2).transpose(1, 2)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Both pictures of every pair to (pairs, 2, cells, channels)."""
        first, second = self.of_pictures(torch.cat([before, after])).chunk(2)
        return torch.stack([first, second], dim=1)

    def fingerprint(self) -> str:
        """Tells one set of weights from another, so that features on disk are never read by the wrong model."""
        digest = hashlib.sha256()
        for name, value in sorted(self.network.state_dict().items()):
            if value.is_floating_point():
                digest.update(name.encode())
                # In half precision: the same weights may have been stored so in between.
                digest.update(value.detach().cpu().half().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


class PairFeatures(PairEncoder):
    """CLIP4IDC's pair encoder as eyes: patches after both pictures met, `encoder.*` named as in its checkpoints."""

    @property
    def channels(self) -> int:
        """Width of a patch."""
        return self.norm.normalized_shape[0]

    def forward(self, before: Tensor, after: Tensor) -> Tensor:  # type: ignore[override]
        """Both pictures of every pair to (pairs, 2, cells, channels)."""
        return super().forward(before, after)["inter"]
