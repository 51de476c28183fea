"""From pixels to patch vectors: CLIP's single convolution, and a convolutional stem for training from scratch."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class ClipPatches(nn.Module):
    """One convolution, as wide as its stride."""

    def __init__(self, *, patch: int, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, width, patch, stride=patch, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        # Windows do not overlap: one matrix product, which every device does better than a convolution of 3 channels.
        patch = self.convolution.kernel_size[0]
        rows, columns = images.shape[2] // patch, images.shape[3] // patch
        windows = images[:, :, : rows * patch, : columns * patch].unflatten(3, (columns, patch))
        windows = windows.unflatten(2, (rows, patch)).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        return F.linear(windows, self.convolution.weight.flatten(1))  # (images, patches, width)


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of each pixel: one pass over memory, where a group norm takes two in fp32."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.movedim(1, -1)).movedim(-1, 1)


class ConvPatches(nn.Module):
    """3x3 convolutions that halve the image, then one that is as wide as its stride.

    Edges and textures of small objects survive the halvings; a ViT trained without CLIP's hundreds of
    millions of images learns faster from them than from one coarse convolution.
    """

    def __init__(self, *, patch: int, width: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        last_stride = patch // 2 ** len(channels)
        layers: list[nn.Module] = []
        previous = 3
        for wide in channels:
            layers += [
                nn.Conv2d(previous, wide, 3, stride=2, padding=1, bias=False),
                ChannelNorm(wide),
                nn.GELU(),
            ]
            previous = wide
        self.halvings = nn.Sequential(*layers)
        self.convolution = nn.Conv2d(previous, width, last_stride, stride=last_stride)

    def forward(self, images: Tensor) -> Tensor:
        patches: Tensor = self.convolution(self.halvings(images))
        result = patches.flatten(2).transpose(1, 2)  # (images, patches, width)
        return result
