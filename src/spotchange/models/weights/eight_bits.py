"""Weights in 8 bits: a matrix NAME as int8, and beside it NAME.scale, one fp32 number per output channel.

Only the matrices of the encoder's transformer blocks are kept so, nine tenths of a model. Everything that reads a
folder gets them back in fp32 from `restored`; the ONNX graphs multiply with the 8 bits themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from spotchange.errors import ModelError
from spotchange.models.layers import Linear, PreNormBlock
from spotchange.models.weights.description import SCALE

_LARGEST = 127  # -128 stays unused, so that a matrix and its negative have the same error


def block_matrices(model: nn.Module) -> list[str]:
    """Names of the matrices worth 8 bits: those of the linear layers in the blocks of the encoder."""
    blocks = [(name, block) for name, block in model.named_modules() if isinstance(block, PreNormBlock)]
    names = [
        f"{outer}.{inner}.weight"
        for outer, block in blocks
        if outer.startswith("encoder.")
        for inner, layer in block.named_modules()
        if isinstance(layer, Linear)
    ]
    if not names:
        raise ModelError("this model has no transformer blocks in its encoder: there is nothing to store in 8 bits")
    return names


def quantized(state: dict[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The state with these matrices in 8 bits, rounded to the nearest, each scale right after its matrix."""
    chosen = set(names)
    result: dict[str, Tensor] = {}
    for name, value in state.items():
        if name not in chosen:
            result[name] = value
            continue
        scale = value.float().abs().amax(dim=1) / _LARGEST
        scale[scale == 0] = 1.0
        result[name] = (value.float() / scale[:, None]).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
        result[name + SCALE] = scale
    return result


def restored(state: dict[str, Tensor], *, source: str) -> dict[str, Tensor]:
    """The state with every matrix of 8 bits as the fp32 numbers it stands for."""
    result = {name: value for name, value in state.items() if not name.endswith(SCALE)}
    for name in state.keys() - result.keys():
        if name.removesuffix(SCALE) not in result:
            raise ModelError(f"{source}: {name} is the scale of nothing")
    for name, value in result.items():
        scale = state.get(name + SCALE)
        if value.dtype != torch.int8 and scale is None:
            continue
        if value.dtype != torch.int8 or value.ndim != 2:
            raise ModelError(f"{source}: {name} has a scale but is no matrix of 8 bits")
        if scale is None:
            raise ModelError(f"{source}: {name} is stored in 8 bits, and its scale {name + SCALE} is missing")
        if scale.shape != value.shape[:1]:
            raise ModelError(f"{source}: {name + SCALE} has shape {list(scale.shape)}, not {[len(value)]}")
        if not bool((scale.isfinite() & (scale > 0)).all()):
            raise ModelError(f"{source}: {name + SCALE} holds numbers that are no scale")
        result[name] = value.float() * scale.float()[:, None]
    return result
