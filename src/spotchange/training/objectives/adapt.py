"""Adaptation by retrieval: a pair of images and the sentence about it find each other in the batch."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spotchange.config.objectives import AdaptSettings, ImageTextSettings
from spotchange.errors import ConfigError
from spotchange.pairs import PairBatch
from spotchange.training import distributed
from spotchange.training.objectives.base import Objective, in_full_precision

LARGEST_SCALE = 100.0  # inverse temperature


class AdaptObjective(Objective):
    """Symmetric contrastive loss between pair and text embeddings, over the batches of all processes."""

    metric = "R@1"
    ranks = True

    def __init__(
        self, model: nn.Module, settings: AdaptSettings, *, paired: bool, **normalisation: tuple[float, ...]
    ) -> None:
        super().__init__(model, **normalisation)
        self.settings = settings
        self.paired = paired
        self.truth = None if settings.dense is None else self.build_truth(settings.dense)

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        only_changes = self.paired  # the few sentences of pairs without a change repeat
        mask_known = None
        if self.paired and self.training:
            batch, mask_known = swap_in_distractors(batch, self.settings.distractor_as_before)
        if only_changes and self.truth is None:
            batch, only_changes = batch[::2], False
        state = self.encode(batch.before, batch.after)
        pairs, texts = self.model.pair_embedding(state), batch
        if only_changes:
            pairs, texts = pairs[::2], batch[::2]
        words = self.model.embed_text(texts.caption_ids, texts.caption_mask)
        pairs, words = (shared_gradient(each, self.settings.gradient_share) for each in (pairs, words))
        scale = self.model.logit_scale.exp()
        apart = self.settings.equal_captions == "apart"
        loss = contrastive_loss(pairs, words, scale, caption_keys(texts) if apart else None)
        results = {"loss": loss * (0.5 if self.settings.halve else 1.0), "scale": scale.detach()}
        if self.truth is not None:
            losses = self.truth(self.model, state, batch, mask_known)
            results |= losses | {"contrast": results["loss"].detach()}
            results["loss"] = results["loss"] + self.truth.weighted(losses)
        return results

    @torch.no_grad()
    def after_step(self) -> None:
        """Hold the learnable scale under its limit, as CLIP does."""
        self.model.logit_scale.clamp_(max=math.log(LARGEST_SCALE))


def shared_gradient(values: Tensor, share: float) -> Tensor:
    """The same values; only `share` of their gradient goes on."""
    return values if share == 1.0 else values.detach() + share * (values - values.detach())


def contrastive_loss(pairs: Tensor, words: Tensor, scale: Tensor, keys: Tensor | None = None) -> Tensor:
    """Cross-entropy of pair to text plus text to pair; rows with equal `keys` are not each other's negatives.

    Every process computes the loss of the whole batch from gathered rows. The gradient of gathering
    sums over processes and data-parallel training averages, which together gives the gradient of one
    process with everything.
    """
    pairs = distributed.gather_with_gradients(pairs.float())
    words = distributed.gather_with_gradients(words.float())
    own = torch.arange(len(pairs), device=pairs.device)
    with in_full_precision(pairs):
        similarity = scale.float() * pairs @ words.T  # (pairs, texts)
        if keys is not None:
            keys = distributed.gather(keys)
            same = (keys[:, None] == keys[None, :]) & (own[:, None] != own[None, :])
            similarity = similarity.masked_fill(same, float("-inf"))
        return F.cross_entropy(similarity, own) + F.cross_entropy(similarity.T, own)


def caption_keys(batch: PairBatch) -> Tensor:
    """A number for every caption, equal for equal captions (64-bit hash of its words)."""
    places = torch.arange(1, batch.caption_ids.shape[1] + 1, device=batch.caption_ids.device)
    mixed = (batch.caption_ids + 1) * (places * 0x9E3779B97F4A7C1 + 0x2545F4914F6CDD1)
    mixed = (mixed ^ (mixed >> 29)) * 0x1B873593CC9E2D5
    return (mixed * batch.caption_mask).sum(dim=1)


def swap_in_distractors(batch: PairBatch, probability: float) -> tuple[PairBatch, Tensor]:
    """With `probability`, a change row's "before" becomes its scene's distractor image.

    Returns the batch and which rows' change masks still fit (that image's mask is not known).
    """
    scenes = len(batch) // 2
    chosen = torch.rand(scenes, device=batch.before.device) < probability
    chosen = torch.stack([chosen, torch.zeros_like(chosen)], dim=1).flatten()  # change rows only
    pick = chosen.view(-1, 1, 1, 1)
    before = torch.where(pick, batch.after.roll(-1, dims=0), batch.before)
    attributes = batch.patch_attributes
    if attributes is not None:
        first = torch.where(chosen.view(-1, 1, 1), attributes[:, 1].roll(-1, dims=0), attributes[:, 0])
        attributes = torch.stack([first, attributes[:, 1]], dim=1)
    return replace(batch, before=before, patch_attributes=attributes), ~chosen


class ImageTextObjective(Objective):
    """Symmetric contrastive loss between single images and texts; the image stands under `before`."""

    metric = "R@1"
    ranks = True

    def __init__(self, model: nn.Module, settings: ImageTextSettings, **normalisation: tuple[float, ...]) -> None:
        super().__init__(model, **normalisation)
        if getattr(model, "text_encoder", None) is None or len(model.encoder.inter):  # type: ignore[arg-type, union-attr]
            raise ConfigError(
                "image-text trains two towers that know single images only", hint="model: {preset: scene-clip}"
            )
        self.settings = settings

    def forward(self, batch: PairBatch) -> dict[str, Tensor]:
        images = self.seen_embedding(batch)
        texts = self.model.embed_text(batch.caption_ids, batch.caption_mask)
        scale = self.model.logit_scale.exp()
        loss = 0.5 * contrastive_loss(images, texts, scale, caption_keys(batch))
        return {"loss": loss, "scale": scale.detach()}

    def seen_embedding(self, batch: PairBatch) -> Tensor:
        """Of single images, not of pairs."""
        embedding: Tensor = self.model.embed_image(self.normalise(batch.before))
        return embedding

    @torch.no_grad()
    def after_step(self) -> None:
        """Hold the learnable scale under its limit, as CLIP does."""
        self.model.logit_scale.clamp_(max=math.log(self.settings.max_scale))
