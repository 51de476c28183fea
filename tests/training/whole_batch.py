"""What one process and two are compared on: an objective without dropout and a batch with words of many lengths.

Of the published systems the words count, not what they contrast within the pairs of one process.
"""

from __future__ import annotations

import importlib.util
import inspect
from dataclasses import replace
from pathlib import Path

import torch

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import (
    AdaptSettings,
    BaselineObjectiveSettings,
    CaptionSettings,
    DenseSettings,
    PclFinetuneSettings,
)
from spotchange.models.baselines.build import SYSTEMS
from spotchange.models.build import build_model
from spotchange.training.objectives.base import Objective
from spotchange.training.objectives.build import build_objective

KINDS = {
    "dense": DenseSettings.model_validate({"kind": "dense"}),
    "adapt": AdaptSettings.model_validate({"kind": "adapt", "distractor_as_before": 1.0}),
    "adapt with dense truth": AdaptSettings.model_validate({"kind": "adapt", "distractor_as_before": 1.0, "dense": {}}),
    "caption": CaptionSettings.model_validate({"kind": "caption"}),
    "pcl fine-tuning": PclFinetuneSettings(kind="pcl-finetune", positions="every", reduction="mean"),
    "pcl fine-tuning, summed": PclFinetuneSettings(kind="pcl-finetune", positions="every"),
    "caption with dense truth": CaptionSettings.model_validate({"kind": "caption", "distractors": "mean", "dense": {}}),
} | {
    name: BaselineObjectiveSettings(kind="baseline", swap=0.0, weights=dict.fromkeys(system.weights, 0.0))
    for name, system in SYSTEMS.items()
}
SMALL_NETWORK = {"image_size": [32, 48], "resnet_depths": [1, 1, 1], "resnet_channels": [8, 8, 16]}
SMALL_SIZES = {"width": 32, "hidden": 32, "word": 12, "heads": 2, "decoder_heads": 2, "inner": 48, "decoder_inner": 48}


def objective_and_batch(kind: str) -> tuple[Objective, object]:
    """The same weights and rows in every process; two rows share a caption."""
    spec = importlib.util.spec_from_file_location("fixtures", Path(__file__).with_name("conftest.py"))
    fixtures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixtures)
    batch = fixtures.random_batch(12, seed=11)
    batch.caption_ids[8], batch.caption_mask[8] = batch.caption_ids[0], batch.caption_mask[0]  # in the other half
    if kind in SYSTEMS:
        return _system(kind), replace(batch, before=torch.rand(12, 6, 16), after=torch.rand(12, 6, 16))
    settings = ModelSettings.model_validate(fixtures.TINY)
    captioner = settings.captioner.model_copy(update={"dropout": 0.0})
    torch.manual_seed(3)
    changes: dict[str, object] = {"captioner": captioner}
    if isinstance(KINDS[kind], PclFinetuneSettings):
        changes |= {"architecture": "idc-pcl", "text": settings.text.model_copy(update={"width": captioner.width})}
    model = build_model(settings.model_copy(update=changes))
    objective = build_objective(model, KINDS[kind], mean=(0.5,) * 3, std=(0.25,) * 3, paired=True)
    return objective.train(), batch


def _system(name: str) -> Objective:
    """A published system on a small network, without what depends on chance or on the rest of the batch."""
    torch.manual_seed(3)
    known = set(inspect.signature(SYSTEMS[name]).parameters)
    baseline = {"system": name, "sizes": {size: value for size, value in SMALL_SIZES.items() if size in known}}
    values = {"preset": "baseline", "vision": SMALL_NETWORK, "text": {"context": 24}, "baseline": baseline}
    model = build_model(ModelSettings.model_validate(values))
    objective = build_objective(model, KINDS[name], mean=(0.5,) * 3, std=(0.25,) * 3, paired=True).train()
    objective.model.eval()
    return objective


def gradients(objective: Objective) -> dict[str, torch.Tensor]:
    """By name, of every parameter that has one."""
    return {name: value.grad for name, value in objective.named_parameters() if value.grad is not None}
