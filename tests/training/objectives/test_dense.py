"""Dense truth: each loss sees its own truth and nothing else, and can be learnt."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import DenseSettings
from spotchange.errors import ConfigError
from spotchange.models.build import build_model
from spotchange.training.objectives.dense import DenseObjective

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}


def build(model, **weights: float) -> DenseObjective:
    torch.manual_seed(1)
    return DenseObjective(model, DenseSettings.model_validate({"kind": "dense", "weights": weights}), **HALF)


def test_normalisation_is_the_preprocessors(tiny_model, make_batch) -> None:
    from spotchange.models.vision.preprocess import CLIP_MEAN, CLIP_STD, Preprocessor

    objective = DenseObjective(tiny_model, DenseSettings(kind="dense"), mean=CLIP_MEAN, std=CLIP_STD)
    images = make_batch(2, seed=1).before
    expected = Preprocessor(image_size=(24, 36))(images)
    assert torch.allclose(objective.normalise(images), expected, atol=1e-5)


def test_each_truth_moves_only_its_own_loss(tiny_model, make_batch) -> None:
    objective = build(tiny_model).eval()
    batch = make_batch(8, seed=2)
    others = {
        "attributes": replace(batch, patch_attributes=torch.full_like(batch.patch_attributes, -1)),
        "mask": replace(batch, change_mask=~batch.change_mask),
        "change": replace(batch, change_type=(batch.change_type + 1) % 6),
        "answer": replace(batch, answer=torch.full_like(batch.answer, 1)),
    }
    with torch.no_grad():
        before = objective(batch)
        for name, changed in others.items():
            after = objective(changed)
            moved = {key for key in others if not torch.equal(before[key], after[key])}
            assert moved == {name}


def test_weight_zero_leaves_a_loss_out(tiny_model, make_batch) -> None:
    results = build(tiny_model, attributes=0, answer=0)(make_batch(8, seed=3))
    assert {"mask", "change"} <= set(results)
    assert not {"attributes", "answer"} & set(results)
    total = float((results["mask"] + results["change"]).detach())
    assert float(results["loss"].detach()) == pytest.approx(total, rel=1e-6)


def test_rows_without_an_answer_do_not_count(tiny_model, make_batch) -> None:
    batch = make_batch(8, seed=4)
    nothing = replace(batch, answer=torch.full_like(batch.answer, -1))
    results = build(tiny_model)(nothing)
    assert float(results["answer"].detach()) == 0.0
    assert torch.isfinite(results["loss"])


def test_a_small_batch_is_learnt_by_heart(tiny_model, make_batch) -> None:
    objective, batch = build(tiny_model), make_batch(4, seed=5)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=3e-3)
    first = float(objective(batch)["loss"].detach())
    for _ in range(150):
        optimizer.zero_grad()
        objective(batch)["loss"].backward()
        optimizer.step()
    results = objective.eval()(batch)
    assert float(results["loss"].detach()) < 0.25 * first
    assert float(results["exact"]) == 1.0


def test_a_model_without_the_heads_is_refused(tiny_settings: ModelSettings) -> None:
    settings = tiny_settings.model_copy(update={"heads": tiny_settings.heads.model_copy(update={"change": False})})
    with pytest.raises(ConfigError, match=r"model\.heads\.change"):
        build(build_model(settings))


def test_an_image_that_two_rows_share_is_encoded_once(tiny_model, make_batch) -> None:
    batch = make_batch(8, seed=3)
    batch = replace(batch, before=batch.before[::2].repeat_interleave(2, dim=0))
    objective = build(tiny_model)
    seen = []
    tiny_model.encoder.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))

    def gradients() -> list[torch.Tensor]:
        return list(
            torch.autograd.grad(objective(batch)["loss"], list(tiny_model.encoder.parameters()), materialize_grads=True)
        )

    apart = gradients()
    objective.shares_before = True
    together = gradients()
    assert seen == [16, 12]
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(apart, together, strict=True))
