"""What one process and two are compared on: an objective without dropout and a batch with words of many lengths."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import AdaptSettings, CaptionSettings, DenseSettings, PclFinetuneSettings
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
}


def objective_and_batch(kind: str) -> tuple[Objective, object]:
    """The same weights and rows in every process; two rows share a caption."""
    spec = importlib.util.spec_from_file_location("fixtures", Path(__file__).with_name("conftest.py"))
    fixtures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixtures)
    settings = ModelSettings.model_validate(fixtures.TINY)
    captioner = settings.captioner.model_copy(update={"dropout": 0.0})
    torch.manual_seed(3)
    changes: dict[str, object] = {"captioner": captioner}
    if isinstance(KINDS[kind], PclFinetuneSettings):
        changes |= {"architecture": "idc-pcl", "text": settings.text.model_copy(update={"width": captioner.width})}
    model = build_model(settings.model_copy(update=changes))
    objective = build_objective(model, KINDS[kind], mean=(0.5,) * 3, std=(0.25,) * 3, paired=True)
    batch = fixtures.random_batch(12, seed=11)
    batch.caption_ids[8], batch.caption_mask[8] = batch.caption_ids[0], batch.caption_mask[0]  # in the other half
    return objective.train(), batch


def gradients(objective: Objective) -> dict[str, torch.Tensor]:
    """By name, of every parameter that has one."""
    return {name: value.grad for name, value in objective.named_parameters() if value.grad is not None}
