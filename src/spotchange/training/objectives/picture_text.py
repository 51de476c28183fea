"""CLIP's own objective: a picture and a text about it find each other in the batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from spotchange.config.objectives import PictureTextSettings
from spotchange.errors import ConfigError
from spotchange.pairs import PairBatch
from spotchange.training.objectives.adapt import caption_keys, contrastive_loss
from spotchange.training.objectives.base import Objective


class PictureTextObjective(Objective):
    """Symmetric contrastive loss between single pictures and texts; the picture stands under `before`."""

    metric = "R@1"
    ranks = True

    def __init__(self, model: nn.Module, settings: PictureTextSettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        if getattr(model, "text_encoder", None) is None or len(model.encoder.inter):  # type: ignore[arg-type, union-attr]
            raise ConfigError(
                "picture-text trains two towers that know single pictures only", hint="model: {preset: scene-clip}"
            )
        self.settings = settings

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        pictures = self.seen_embedding(batch)
        texts = self.model.embed_text(batch.caption_ids, batch.caption_mask)
        scale = self.model.logit_scale.exp()
        loss = 0.5 * contrastive_loss(pictures, texts, scale, caption_keys(batch))
        return {"loss": loss, "scale": scale.detach()}

    def seen_embedding(self, batch: PairBatch) -> Tensor:
        """Of single pictures, not of pairs."""
        embedding: Tensor = self.model.embed_picture(self.normalise(batch.before))
        return embedding

    @torch.no_grad()
    def after_step(self) -> None:
        """Hold the learnable scale under its limit, as CLIP does."""
        self.model.logit_scale.clamp_(max=math.log(self.settings.max_scale))
