"""Settings of the objectives: what a stage of training optimises."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from spotchange.config.base import Settings

Weight = Annotated[float, Field(ge=0)]


class DenseTruthSettings(Settings):
    """Weights of the losses against what the renderer knows; 0 leaves one out."""

    attributes: Weight = 1.0
    """Per patch, before the pictures meet: colour, shape, material and size of the object seen there."""
    mask: Weight = 1.0
    """Per patch, after they met: is this the changed object."""
    change: Weight = 1.0
    """Per pair: the kind of change."""
    answer: Weight = 1.0
    """Per pair: the changed object's attributes and its new colour or material."""


class DenseSettings(Settings):
    """Learn to see from the renderer's own knowledge: the role CLIP's pre-training plays in the paper."""

    kind: Literal["dense"]
    weights: DenseTruthSettings = DenseTruthSettings()


class AdaptSettings(Settings):
    """Bring a pair of pictures and the sentence about it together: symmetric contrastive loss."""

    kind: Literal["adapt"]
    halve: bool = True
    """Half the sum of both directions, as the published program computes it; false: the sum, as the paper writes it."""
    change_pairs_only: bool = True
    """On data with distractors: use change pairs alone, because the few no-change sentences repeat."""
    distractor_as_before: float = Field(default=0.5, ge=0, le=1)
    """How often the scene's distractor picture replaces "before"."""
    max_scale: float = Field(default=100.0, gt=1)
    """Largest inverse temperature."""
    dense: DenseTruthSettings | None = None
    """Keep the dense truth as extra losses with these weights."""


class CaptionSettings(Settings):
    """Say what changed: cross-entropy of the next word."""

    kind: Literal["caption"]
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    distractors: Literal["sum", "mean"] = "sum"
    """sum: the mean loss of change pairs plus that of distractors; mean: one mean over all words."""
    dense: DenseTruthSettings | None = None
    """Keep the change head, the heat map and the dense truth trained with these weights."""


Objective = Annotated[DenseSettings | AdaptSettings | CaptionSettings, Field(discriminator="kind")]
