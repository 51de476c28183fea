"""One image at a time: CLIP's vision transformer up to the blocks that look at both images ("intra")."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.layers import PreNormBlock, draw
from spotchange.models.vision.patch_embedding import ClipPatches, ConvPatches


class ImageEncoder(nn.Module):
    """Patches, class token, positions, pre-norm, `blocks` transformer blocks."""

    def __init__(
        self,
        *,
        image_size: tuple[int, int],
        patch: int,
        width: int,
        heads: int,
        blocks: int,
        stem: str = "clip",
        stem_channels: tuple[int, ...] = (),
        activation: str = "quick_gelu",
        mlp_ratio: int = 4,
    ) -> None:
        super().__init__()
        self.grid = (image_size[0] // patch, image_size[1] // patch)
        self.patches: nn.Module = (
            ClipPatches(patch=patch, width=width)
            if stem == "clip"
            else ConvPatches(patch=patch, width=width, channels=stem_channels)
        )
        self.class_token = nn.Parameter(torch.empty(width))
        self.positions = nn.Parameter(torch.empty(1 + self.grid[0] * self.grid[1], width))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            PreNormBlock(width=width, heads=heads, activation=activation, mlp_ratio=mlp_ratio) for _ in range(blocks)
        )
        for added in (self.class_token, self.positions):
            draw(added, std=width**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images)
        class_token = self.class_token.to(patches.dtype).expand(len(patches), 1, -1)
        tokens = self.norm(torch.cat([class_token, patches], dim=1) + self.positions)
        for block in self.blocks:
            tokens = block(tokens)
        result: Tensor = tokens  # (images, 1 + patches, width)
        return result


def interpolate_positions(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Stretch position embeddings, each image's class token first, from one patch grid to another.

    Works for one image's positions and for the joint positions of two.
    """
    images = len(positions) // (1 + old[0] * old[1])
    per_image = positions.reshape(images, 1 + old[0] * old[1], -1)
    classes, patches = per_image[:, :1], per_image[:, 1:]
    plane = patches.unflatten(1, old).permute(0, 3, 1, 2).float()
    plane = F.interpolate(plane, size=new, mode="bicubic", antialias=True, align_corners=False)
    patches = plane.permute(0, 2, 3, 1).flatten(1, 2).to(positions.dtype)
    return torch.cat([classes, patches], dim=1).flatten(0, 1)
