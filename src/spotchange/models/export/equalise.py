"""Even channels before 8 and 16 bits: what a norm gives is scaled channel by channel, what reads it the other way.

One scale serves all channels of a layer's input, so that a few loud ones take the precision of all others. Moving half
of their loudness into the weights halves the difference from torch and costs the weights nothing. Factors are powers
of two: in fp32 the model stays the same to the last bit.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from spotchange.images import read_image
from spotchange.models.layers import PreNormBlock
from spotchange.models.weights.eight_bits import block_matrices
from spotchange.models.weights.folder import LoadedModel

_MOVED = 0.5  # share of the loudness, in logarithms, that moves into the weights
_QUIETEST = 1e-3  # of the loudest channel; what is below counts as this


def equalise(loaded: LoadedModel) -> None:
    """Rescale the norms of the encoder's blocks, in place, by how loud their channels are on the shipped examples."""
    model: Any = loaded.model
    block_matrices(model)  # says so where there are none
    norms = {
        norm: reader
        for block in model.encoder.modules()
        if isinstance(block, PreNormBlock)
        for norm, reader in (
            (block.attention_norm, block.attention.query_key_value),
            (block.feed_forward_norm, block.feed_forward.inner),
        )
    }
    loudest: dict[nn.Module, Tensor] = {}

    def listen(norm: nn.Module, _: Any, output: Tensor) -> None:
        loudest[norm] = output.abs().flatten(0, -2).amax(dim=0)

    hooks = [norm.register_forward_hook(listen) for norm in norms]
    try:
        with torch.no_grad():
            model.encode(*(loaded.preprocess(images) for images in _example_images()))
            for norm, reader in norms.items():
                factor = _factors(loudest[norm])
                norm.weight.div_(factor)
                norm.bias.div_(factor)
                reader.weight.mul_(factor)
    finally:
        for hook in hooks:
            hook.remove()


def _factors(loudness: Tensor) -> Tensor:
    """What each channel is divided by: a power of two, one for the loudest."""
    relative = (loudness / loudness.max()).clamp(min=_QUIETEST)
    return torch.exp2((_MOVED * relative.log2()).round())


def _example_images() -> tuple[list[Image.Image], list[Image.Image]]:
    """The pairs that ship with the package: all images before, all after."""
    folder = Path(str(resources.files("spotchange"))) / "assets" / "examples"
    before, after = (
        [read_image(path) for path in sorted(folder.glob(f"*_{side}.jpg"))] for side in ("before", "after")
    )
    return before, after
