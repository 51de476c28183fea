"""A CNN backbone (ResNet) in the place of CLIP's vision transformer: IDC's conventional backbone."""

from __future__ import annotations

import hashlib
from typing import Any, Self

import torch
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.layers import draw
from spotchange.models.weights.transformers_import import import_transformers


class GridNetwork(nn.Module):
    """A ResNet on single images; with `frozen` no gradients, and its batch statistics do not move.

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

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.fixed_statistics:
            self.network.eval()
        return self

    def of_images(self, images: Tensor) -> Tensor:
        """(images, 3, height, width) to (images, cells, channels)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            planes: Tensor = self.network(images).feature_maps[-1]
        return planes.flatten(2).transpose(1, 2)

    def fingerprint(self) -> str:
        """Tells one set of weights from another, so that features on disk are never read by the wrong model."""
        digest = hashlib.sha256()
        for name, value in sorted(self.network.state_dict().items()):
            if value.is_floating_point():
                digest.update(name.encode())
                # In half precision: the same weights may have been stored so in between.
                digest.update(value.detach().cpu().half().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


class GridEncoder(GridNetwork):
    """One image's grid of ResNet features as tokens: linear layer, class token, positions, norm."""

    def __init__(self, *, grid: tuple[int, int], width: int, **network: Any) -> None:
        super().__init__(**network)
        self.grid = grid
        self.input = nn.Linear(self.channels, width)
        self.class_token = nn.Parameter(torch.empty(width))
        self.positions = nn.Parameter(torch.empty(1 + grid[0] * grid[1], width))
        self.norm = nn.LayerNorm(width)
        for added in (self.class_token, self.positions):
            draw(added, std=width**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        """Images (images, 3, height, width), or what the network made of them (images, cells, channels)."""
        cells = self.input(images if images.ndim == 3 else self.of_images(images))
        class_token = self.class_token.to(cells.dtype).expand(len(cells), 1, -1)
        tokens = torch.cat([class_token, cells], dim=1) + self.positions  # (images, 1 + cells, width)
        result: Tensor = self.norm(tokens)
        return result


def frozen_network(model: nn.Module) -> GridNetwork | None:
    """The network of a model whose features can be kept on disk, because it never learns; None without one."""
    encoder = getattr(model, "encoder", None)
    for part in (encoder, getattr(encoder, "backbone", None)):
        if isinstance(part, GridNetwork) and part.frozen:
            return part
    return None


def resnet(
    *, depths: tuple[int, ...], channels: tuple[int, ...], stage: int, stride_first: bool, pretrained: str | None
) -> Any:
    """A ResNet whose output is the grid of one stage; random weights, or those of a folder or the hub."""
    transformers = import_transformers()  # only models with such a backbone pay for it
    config = transformers.ResNetConfig(
        depths=list(depths),
        hidden_sizes=list(channels),
        downsample_in_bottleneck=stride_first,
        out_features=[f"stage{stage}"],
    )
    return transformers.ResNetBackbone(config) if pretrained is None else _pretrained(pretrained, config)


def _pretrained(source: str, config: Any) -> Any:
    """Weights from a folder or the hub, all of them, or an error that says what is missing."""
    transformers = import_transformers()
    logging = transformers.utils.logging
    logging.disable_progress_bar()  # a hundred tensors take no time worth watching
    told = logging.get_verbosity()
    logging.set_verbosity_error()  # or it lists every tensor of the classifier and of stages that are not built
    try:
        network, report = transformers.ResNetBackbone.from_pretrained(
            source, config=config, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"model.vision.resnet: cannot read a ResNet from {source}: {reason}") from error
    finally:
        logging.set_verbosity(told)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(f"model.vision.resnet: {source} lacks {', '.join(missing[:5])}")
    return network
