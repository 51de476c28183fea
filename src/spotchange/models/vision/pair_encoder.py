"""CLIP4IDC's pair encoder: each image alone, then both at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.models.layers import PreNormBlock, draw
from spotchange.models.vision.local_matching import LocalMatching


class PairEncoder(nn.Module):
    """Backbone on each image, before and after vectors, joint positions, inter blocks, projection.

    `joint=False` leaves out the joint positions and their norm: CLIP-FT, where no block sees both images. With
    `difference` every token also gets what it is that differs at its place in the other image, with `matching` what
    differs from the best match near it, on a finer grid of the backbone (neither is in the paper).
    """

    def __init__(
        self,
        *,
        backbone: nn.Module,
        grid: tuple[int, int],
        width: int,
        heads: int,
        n_inter: int,
        output_width: int,
        joint: bool = True,
        activation: str = "quick_gelu",
        mlp_ratio: int = 4,
        difference: bool = False,
        matching: LocalMatching | None = None,
    ) -> None:
        super().__init__()
        self.grid = grid
        self.backbone = backbone
        self.before_vector = nn.Parameter(torch.empty(width))
        self.after_vector = nn.Parameter(torch.empty(width))
        tokens = 2 * (1 + grid[0] * grid[1])
        self.joint_positions = nn.Parameter(torch.empty(tokens, width)) if joint else None
        self.joint_norm = nn.LayerNorm(width) if joint else None
        self.inter = nn.ModuleList(
            PreNormBlock(width=width, heads=heads, activation=activation, mlp_ratio=mlp_ratio) for _ in range(n_inter)
        )
        # What is seen at the same place of the other image: attention need not first learn where to look.
        self.difference = nn.Linear(width, width, bias=False) if difference else None
        self.matching = matching
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, output_width, bias=False)
        for added in (self.before_vector, self.after_vector, self.joint_positions):
            if added is not None:
                draw(added, std=width**-0.5)

    def forward(self, before: Tensor, after: Tensor) -> dict[str, Tensor]:
        """Two batches of images (pairs, 3, height, width) to everything later parts may ask for.

        `before` may hold fewer images than `after`: each then belongs to as many neighbouring pairs, and is
        looked at once.

        `tokens` (pairs, 2 (1 + patches), output width): the visual representation; `intra`
        (pairs, 2, patches, width): patches before they met the other image; `inter`: the same after,
        normalised; `classes` (pairs, 2, width): the two class tokens, normalised; `last_input`
        (pairs, tokens, width): what the last inter block read, from which a heat map is made on demand.
        """
        pairs = len(after)
        images = torch.cat([before, after])
        fine = None
        if self.matching is None:
            alone = self.backbone(images)  # (2 pairs, 1 + patches, width)
        else:
            backbone: Any = self.backbone
            alone, fine = backbone.with_fine_grid(images)
            fine = _by_pair(fine, len(before), pairs)
        marks = torch.stack([self.before_vector, self.after_vector])[:, None, None]  # (2, 1, 1, width)
        alone = _by_pair(alone, len(before), pairs)
        marked = alone + marks
        if self.difference is not None:
            marked = marked + self.difference(alone - alone.flip(0))
        if self.matching is not None and fine is not None:
            marked = marked + F.pad(self.matching(fine), (0, 0, 1, 0))  # the class token has no place
        together = marked.transpose(0, 1).flatten(1, 2)  # (pairs, 2 (1 + patches), width)
        if self.joint_positions is not None and self.joint_norm is not None:
            together = self.joint_norm(together + self.joint_positions)
        last_input = together
        for block in self.inter:
            last_input = together
            together = block(together)
        normed = self.norm(together)
        by_image = normed.unflatten(1, (2, -1))  # (pairs, 2, 1 + patches, width)
        return {
            "tokens": self.projection(normed),
            "intra": alone[:, :, 1:].transpose(0, 1),
            "inter": by_image[:, :, 1:],
            "classes": by_image[:, :, 0],
            "last_input": last_input,
        }

    def embed_alone(self, images: Tensor) -> Tensor:
        """(images, output width): CLIP's image tower, the class token after all blocks that see one image."""
        result: Tensor = self.projection(self.norm(self.backbone(images)[:, 0]))
        return result

    @property
    def second_class_token(self) -> int:
        """Place of the after image's class token: right after the before image's patches."""
        return 1 + self.grid[0] * self.grid[1]


def _by_pair(values: Tensor, before: int, pairs: int) -> Tensor:
    """(before + after images, ...) to (2, pairs, ...), before images repeated where several pairs share them."""
    if before < pairs:
        first, second = values.split([before, pairs])
        values = torch.cat([first.repeat_interleave(pairs // before, dim=0), second])
    result: Tensor = values.unflatten(0, (2, pairs))
    return result
