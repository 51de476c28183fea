"""The contrastive loss: its value, its negatives, its distractors, its temperature."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from spotchange.config.objectives import AdaptSettings
from spotchange.training.objectives.adapt import AdaptObjective, caption_keys, contrastive_loss, swap_in_distractors

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}


def unit(rows: int, seed: int) -> torch.Tensor:
    return F.normalize(torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_value_is_the_sum_of_both_directions() -> None:
    pairs, texts = unit(4, 1), unit(4, 2)
    expected = 0.0
    for a, b in ((pairs, texts), (texts, pairs)):
        for i in range(4):
            scores = [5.0 * float(a[i] @ b[j]) for j in range(4)]
            expected += (math.log(sum(map(math.exp, scores))) - scores[i]) / 4
    found = contrastive_loss(pairs, texts, torch.tensor(5.0), torch.arange(4))
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_equal_captions_are_not_negatives() -> None:
    """Rows 0 and 2 share a caption: taking either out of the other's candidates must give the same loss."""
    pairs, texts = unit(4, 1), unit(4, 2)
    keys = torch.tensor([7, 1, 7, 3])
    scale = torch.tensor(5.0)
    similarity = scale * pairs @ texts.T
    expected = 0.0
    for matrix in (similarity, similarity.T):
        for i in range(4):
            others = [j for j in range(4) if j == i or keys[j] != keys[i]]
            expected += float(torch.logsumexp(matrix[i, others], 0) - matrix[i, i]) / 4
    assert float(contrastive_loss(pairs, texts, scale, keys)) == pytest.approx(expected, rel=1e-5)
    assert expected < float(contrastive_loss(pairs, texts, scale, torch.arange(4)))


def test_keys_tell_captions_apart(make_batch) -> None:
    batch = make_batch(64, seed=3)
    keys = caption_keys(batch)
    assert len(set(keys.tolist())) == 64
    swapped = batch.caption_ids.clone()
    swapped[:, [1, 2]] = swapped[:, [2, 1]]  # the same words in another order
    different = (batch.caption_ids[:, 1] != batch.caption_ids[:, 2]).nonzero().flatten()
    assert (caption_keys(replace(batch, caption_ids=swapped)) != keys)[different].all()
    longer = torch.cat([batch.caption_ids, torch.zeros(64, 5, dtype=torch.long)], dim=1)
    mask = torch.cat([batch.caption_mask, torch.zeros(64, 5, dtype=torch.bool)], dim=1)
    assert torch.equal(caption_keys(replace(batch, caption_ids=longer, caption_mask=mask)), keys)


def test_distractor_image_replaces_before_of_change_rows_only(make_batch) -> None:
    batch = make_batch(8, seed=4)
    swapped, known = swap_in_distractors(batch, 1.0)
    assert torch.equal(swapped.before[::2], batch.after[1::2])
    assert torch.equal(swapped.before[1::2], batch.before[1::2])
    assert torch.equal(swapped.after, batch.after)
    assert torch.equal(swapped.patch_attributes[::2, 0], batch.patch_attributes[1::2, 1])
    assert known.tolist() == [False, True] * 4
    untouched, known = swap_in_distractors(batch, 0.0)
    assert torch.equal(untouched.before, batch.before)
    assert known.all()


def test_half_of_the_rows_are_swapped(make_batch) -> None:
    torch.manual_seed(0)
    batch = make_batch(400, seed=5)
    _, known = swap_in_distractors(batch, 0.5)
    assert 60 < int((~known).sum()) < 140


def test_only_change_pairs_take_part(tiny_model, make_batch) -> None:
    objective = AdaptObjective(tiny_model, AdaptSettings(kind="adapt"), paired=True, **HALF).eval()
    batch = make_batch(8, seed=6)
    other = replace(batch, caption_ids=batch.caption_ids.clone(), before=batch.before.clone())
    other.caption_ids[1::2, 2] = 11
    other.before[1::2] = 0
    assert torch.equal(objective(batch)["loss"], objective(other)["loss"])


def test_equal_captions_are_negatives_as_published_or_are_left_apart(tiny_model, make_batch) -> None:
    batch = make_batch(8, seed=6)
    batch.caption_ids[2], batch.caption_mask[2] = batch.caption_ids[0], batch.caption_mask[0]
    losses = {}
    for choice in ("apart", "negatives"):
        settings = AdaptSettings(kind="adapt", equal_captions=choice)
        objective = AdaptObjective(tiny_model, settings, paired=True, **HALF).eval()
        losses[choice] = float(objective(batch)["loss"].detach())
    assert losses["negatives"] > losses["apart"] + 0.01


def test_half_sum_is_a_setting(tiny_model, make_batch) -> None:
    whole = AdaptObjective(tiny_model, AdaptSettings(kind="adapt", halve=False), paired=True, **HALF).eval()
    half = AdaptObjective(tiny_model, AdaptSettings(kind="adapt", halve=True), paired=True, **HALF).eval()
    batch = make_batch(8, seed=7)
    assert float(whole(batch)["loss"].detach()) == pytest.approx(2 * float(half(batch)["loss"].detach()))


def test_a_share_of_the_gradient_reaches_the_encoders_and_all_of_it_the_temperature(tiny_model, make_batch) -> None:
    batch, found = make_batch(8, seed=7), []
    for share in (1.0, 0.5):
        settings = AdaptSettings(kind="adapt", gradient_share=share)
        objective = AdaptObjective(tiny_model, settings, paired=True, **HALF).eval()
        tiny_model.zero_grad()
        loss = objective(batch)["loss"]
        loss.backward()
        gradients = (tiny_model.words.words.weight, tiny_model.encoder.projection.weight, tiny_model.logit_scale)
        found.append((loss.detach(), *(each.grad.clone() for each in gradients)))
    whole, half = found
    torch.testing.assert_close(half[0], whole[0])
    torch.testing.assert_close(half[1:3], (whole[1] / 2, whole[2] / 2))
    torch.testing.assert_close(half[3], whole[3])


def test_temperature_is_held_at_its_limit(tiny_model) -> None:
    objective = AdaptObjective(tiny_model, AdaptSettings(kind="adapt"), paired=True, **HALF)
    with torch.no_grad():
        tiny_model.logit_scale.fill_(9.0)
    objective.after_step()
    assert float(tiny_model.logit_scale.detach().exp()) == pytest.approx(100.0)


def test_similarities_keep_their_precision_under_autocast() -> None:
    """In bf16 unit vectors this near to each other are equal, and a batch of them has no gradient worth the name."""
    draw = torch.Generator().manual_seed(5)
    one = torch.nn.functional.normalize(torch.randn(16, generator=draw), dim=0)
    pairs = torch.nn.functional.normalize(one + 1e-3 * torch.randn(8, 16, generator=draw), dim=1)
    plain = contrastive_loss(pairs, pairs, torch.tensor(100.0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert contrastive_loss(pairs, pairs, torch.tensor(100.0)) == plain
