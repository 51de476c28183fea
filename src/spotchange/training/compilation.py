"""Compilation of an objective: whole, or by regions, each kind of repeated block once.

By regions it takes seconds, where a whole graph takes a minute. Blocks of one kind and shape share their compiled
code, since weights are inputs of it. What lies between the regions (joins, two norms, the products with the
vocabulary) runs as it is. A frozen ResNet is compiled stage by stage, which joins its norms and activations: single
operations write every plane out three times.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import nn

from spotchange.models.layers import PostNormBlock, PreNormBlock
from spotchange.models.pcl_blocks import PublishedBlock
from spotchange.models.vision.patch_embedding import ClipPatches, ConvPatches
from spotchange.models.vision.resnet import GridNetwork
from spotchange.training.objectives.auxiliary import DenseTruth
from spotchange.training.objectives.base import Objective
from spotchange.training.objectives.caption import WordLosses

REGIONS: tuple[type[nn.Module], ...] = (
    PreNormBlock,
    PostNormBlock,
    PublishedBlock,
    ClipPatches,
    ConvPatches,
    DenseTruth,
    WordLosses,
)


def compile_objective(objective: Objective, how: bool | Literal["whole"]) -> None:
    """In place, as `stage.compile` says."""
    if how == "whole":
        objective.compile(dynamic=False)
    elif how:
        compile_regions(objective)


def uncompiled(how: bool | Literal["whole"]) -> AbstractContextManager[None]:
    """Validation's few batches have other shapes than training's: not worth compiling for."""
    if not how:
        return nullcontext()
    stance: AbstractContextManager[None] = torch.compiler.set_stance("force_eager")
    return stance


def compile_regions(objective: Objective, *, backend: str = "inductor") -> None:
    """Compile the regions of an objective in place; names of parameters stay as they are."""
    for module in objective.modules():
        if isinstance(module, REGIONS):
            # `forward`, not the module: code is kept by function, and the kinds must not crowd each other out.
            module.forward = torch.compile(module.forward, dynamic=False, backend=backend)
        elif isinstance(module, GridNetwork) and module.frozen:
            for stage in (module.network.embedder, *module.network.encoder.stages):
                stage.forward = torch.compile(stage.forward, dynamic=False, backend=backend)
    objective.normalise = torch.compile(objective.normalise, dynamic=False, backend=backend)  # type: ignore[method-assign]
