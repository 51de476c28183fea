"""From an objective's settings to its class: one visible table."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from spotchange.config.objectives import (
    AdaptSettings,
    CaptionSettings,
    DenseSettings,
    EverydaySettings,
    PclFinetuneSettings,
    PclPretrainSettings,
)
from spotchange.training.objectives.adapt import AdaptObjective
from spotchange.training.objectives.base import Objective
from spotchange.training.objectives.caption import CaptionObjective
from spotchange.training.objectives.dense import DenseObjective
from spotchange.training.objectives.everyday import EverydayObjective
from spotchange.training.objectives.pcl_finetune import PclFinetuneObjective
from spotchange.training.objectives.pcl_pretrain import PclPretrainObjective

Objectives = (
    DenseSettings | AdaptSettings | CaptionSettings | PclPretrainSettings | PclFinetuneSettings | EverydaySettings
)

OBJECTIVES: dict[type, Callable[..., Objective]] = {
    DenseSettings: DenseObjective,
    AdaptSettings: AdaptObjective,
    CaptionSettings: CaptionObjective,
    PclPretrainSettings: PclPretrainObjective,
    PclFinetuneSettings: PclFinetuneObjective,
    EverydaySettings: EverydayObjective,
}


def build_objective(
    model: nn.Module,
    settings: Objectives,
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    paired: bool,
) -> Objective:
    """The objective around `model`; `paired` says that distractor rows follow their change rows."""
    extra = {"paired": paired} if isinstance(settings, AdaptSettings) else {}
    return OBJECTIVES[type(settings)](model, settings, mean=mean, std=std, **extra)
