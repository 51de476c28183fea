"""A grid network (ResNet) in the place of CLIP's vision transformer: IDC's conventional eyes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spotchange.models.layers import draw
from spotchange.models.transformers_door import import_transformers


class GridEncoder(nn.Module):
    """One picture's grid of ResNet features as tokens: linear layer, class token, positions, norm.

    With `frozen` the network stays as it came: no gradients, and its batch statistics do not move.
    """

    def __init__(
        self,
        *,
        grid: tuple[int, int],
        width: int,
        depths: tuple[int, ...],
        channels: tuple[int, ...],
        stage: int,
        frozen: bool,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        # Only models with such a backbone pay for importing transformers.
        transformers = import_transformers()
        self.grid = grid
        self.frozen = frozen
        features = [f"stage{stage}"]
        if pretrained is None:
            config = transformers.ResNetConfig(depths=list(depths), hidden_sizes=list(channels), out_features=features)
            self.network = transformers.ResNetBackbone(config)
        else:
            self.network = transformers.ResNetBackbone.from_pretrained(pretrained, out_features=features)
        if frozen:
            self.network.requires_grad_(False)
        self.input = nn.Linear(self.network.channels[-1], width)
        self.class_token = nn.Parameter(torch.empty(width))
        self.positions = nn.Parameter(torch.empty(1 + grid[0] * grid[1], width))
        self.norm = nn.LayerNorm(width)
        for added in (self.class_token, self.positions):
            draw(added, std=width**-0.5)

    def train(self, mode: bool = True) -> GridEncoder:
        super().train(mode)
        if self.frozen:
            self.network.eval()
        return self

    def forward(self, pictures: Tensor) -> Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            cells = self.network(pictures).feature_maps[-1].flatten(2).transpose(1, 2)
        cells = self.input(cells)
        class_token = self.class_token.to(cells.dtype).expand(len(cells), 1, -1)
        return self.norm(torch.cat([class_token, cells], dim=1) + self.positions)  # (pictures, 1 + cells, width)
