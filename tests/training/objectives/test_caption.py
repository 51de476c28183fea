"""The captioning loss counts the words it should."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import CaptionSettings
from spotchange.errors import ConfigError
from spotchange.models.build import build_model
from spotchange.training.objectives.adapt import contrastive_loss
from spotchange.training.objectives.caption import CaptionObjective

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}


def word_losses(objective: CaptionObjective, batch) -> torch.Tensor:
    state = objective.encode(batch.before, batch.after)
    logits = objective.model.caption_logits(state, batch.caption_ids[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), batch.caption_ids[:, 1:], reduction="none")


@pytest.mark.parametrize("distractors", ["sum", "mean"])
def test_value(tiny_model, make_batch, distractors: str) -> None:
    objective = CaptionObjective(tiny_model, CaptionSettings(kind="caption", distractors=distractors), **HALF).eval()
    batch = make_batch(8, seed=1)
    with torch.no_grad():
        each, counted = word_losses(objective, batch), batch.caption_mask[:, 1:]
        change, distractor = each[::2][counted[::2]].mean(), each[1::2][counted[1::2]].mean()
        expected = change + distractor if distractors == "sum" else each[counted].mean()
        assert float(objective(batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)


def test_what_stands_behind_the_end_does_not_count(tiny_model, make_batch) -> None:
    objective = CaptionObjective(tiny_model, CaptionSettings(kind="caption"), **HALF).eval()
    batch = make_batch(8, seed=2)
    garbage = torch.where(batch.caption_mask, batch.caption_ids, 33)
    with torch.no_grad():
        expected = objective(batch)["loss"]
        assert torch.allclose(objective(replace(batch, caption_ids=garbage))["loss"], expected)


def test_a_batch_without_distractors_has_one_term(tiny_model, make_batch) -> None:
    objective = CaptionObjective(tiny_model, CaptionSettings(kind="caption"), **HALF).eval()
    batch = make_batch(8, seed=3)[::2]
    with torch.no_grad():
        expected = word_losses(objective, batch)[batch.caption_mask[:, 1:]].mean()
        assert float(objective(batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)


def test_dense_truth_adds_to_the_loss_and_trains_the_heads(tiny_model, make_batch) -> None:
    settings = CaptionSettings.model_validate({"kind": "caption", "dense": {"answer": 0}})
    objective = CaptionObjective(tiny_model, settings, **HALF)
    results = objective(make_batch(8, seed=4))
    assert set(results) == {"loss", "attributes", "mask", "change", "words"}
    results["loss"].backward()
    assert tiny_model.change_head.outer.weight.grad.abs().sum() > 0
    assert tiny_model.patch_change_head.outer.weight.grad.abs().sum() > 0


def test_contrast_beside_the_words_knows_one_kind_of_denial(tiny_model, make_batch) -> None:
    objective = CaptionObjective(tiny_model, CaptionSettings(kind="caption", contrast=0.5), **HALF).eval()
    assert objective.ranks
    assert not CaptionObjective(tiny_model, CaptionSettings(kind="caption"), **HALF).ranks
    batch = make_batch(8, 1)
    results = objective(batch)
    words = CaptionObjective(tiny_model, CaptionSettings(kind="caption"), **HALF).eval()(batch)["loss"]
    assert torch.allclose(results["loss"], words + 0.5 * results["contrast"])
    pairs = objective.seen_embedding(batch)
    texts = tiny_model.embed_text(batch.caption_ids, batch.caption_mask)
    scale = tiny_model.logit_scale.exp()
    one_denial = torch.tensor([1, 0, 2, 0, 3, 0, 4, 0])  # distractors, at odd rows, are not each other's negatives
    assert torch.allclose(results["contrast"], 0.5 * contrastive_loss(pairs, texts, scale, one_denial))
    assert not torch.allclose(results["contrast"], 0.5 * contrastive_loss(pairs, texts, scale, torch.arange(8)))
    results["loss"].backward()
    assert tiny_model.text_encoder.projection.weight.grad.abs().sum() > 0


def test_contrast_needs_a_text_tower() -> None:
    model = build_model(ModelSettings.model_validate({"preset": "spotchange-tiny", "text": {"encoder": False}}))
    with pytest.raises(ConfigError, match="ranks"):
        CaptionObjective(model, CaptionSettings(kind="caption", contrast=1.0), **HALF)
