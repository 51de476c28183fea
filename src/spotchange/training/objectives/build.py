"""From an objective's settings to its class: one visible table."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from spotchange.config.objectives import (
    AdaptSettings,
    AnyObjective,
    BaselineObjectiveSettings,
    CaptionSettings,
    DenseSettings,
    EverydaySettings,
    ImageTextSettings,
    PclFinetuneSettings,
    PclPretrainSettings,
)
from spotchange.training.objectives.adapt import AdaptObjective, ImageTextObjective
from spotchange.training.objectives.base import Objective
from spotchange.training.objectives.baseline import BaselineObjective
from spotchange.training.objectives.caption import CaptionObjective
from spotchange.training.objectives.dense import DenseObjective
from spotchange.training.objectives.everyday import EverydayObjective
from spotchange.training.objectives.pcl_finetune import PclFinetuneObjective
from spotchange.training.objectives.pcl_pretrain import PclPretrainObjective

OBJECTIVES: dict[type, Callable[..., Objective]] = {
    DenseSettings: DenseObjective,
    ImageTextSettings: ImageTextObjective,
    AdaptSettings: AdaptObjective,
    CaptionSettings: CaptionObjective,
    PclPretrainSettings: PclPretrainObjective,
    PclFinetuneSettings: PclFinetuneObjective,
    BaselineObjectiveSettings: BaselineObjective,
    EverydaySettings: EverydayObjective,
}


def build_objective(
    model: nn.Module,
    settings: AnyObjective,
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    paired: bool,
) -> Objective:
    """The objective around `model`; `paired` says that distractor rows follow their change rows."""
    extra = {"paired": paired} if isinstance(settings, AdaptSettings | BaselineObjectiveSettings) else {}
    return OBJECTIVES[type(settings)](model, settings, mean=mean, std=std, **extra)
