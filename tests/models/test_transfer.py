"""Weights of one model in another that is not quite the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from spotchange.errors import ModelError
from spotchange.models.build import build_model
from spotchange.models.vision.vit import interpolate_positions
from spotchange.models.weights.transfer import refit, take_weights


def test_blocks_keep_their_place_in_another_split(make_settings: Callable, make_model: Callable) -> None:
    old = make_settings()
    model = make_model()
    for n_inter in (0, 1, 3, 4):
        new = make_settings(vision={"n_inter": n_inter})
        other = build_model(new)
        result = take_weights(other, refit(model.state_dict(), old, new), source="test")
        assert result.fresh == result.unused == ()
        ours = [*model.encoder.backbone.blocks, *model.encoder.inter]
        theirs = [*other.encoder.backbone.blocks, *other.encoder.inter]
        for one, two in zip(ours, theirs, strict=True):
            assert torch.equal(one.feed_forward.inner.weight, two.feed_forward.inner.weight)


def test_positions_stretch_to_another_size(make_settings: Callable, make_model: Callable) -> None:
    old, new = make_settings(), make_settings(vision={"image_size": [64, 64]})
    other = build_model(new)
    result = take_weights(other, refit(make_model().state_dict(), old, new), source="test")
    assert result.fresh == ()
    assert other.encoder.joint_positions.shape == (2 * 17, 64)


def test_interpolation_keeps_class_tokens_and_gradients_of_place() -> None:
    rows = torch.linspace(0, 1, 4)[:, None].expand(4, 6).reshape(-1, 1)
    joint = torch.cat([torch.tensor([[7.0]]), rows, torch.tensor([[9.0]]), rows])
    stretched = interpolate_positions(joint, (4, 6), (8, 3))
    assert stretched.shape == (2 * 25, 1)
    assert stretched[0] == 7.0
    assert stretched[25] == 9.0
    plane = stretched[1:25].reshape(8, 3)
    assert (plane.diff(dim=0) > 0).all()  # still top to bottom
    assert plane.diff(dim=1).abs().max() < 1e-5  # still the same along a row
    torch.testing.assert_close(interpolate_positions(joint, (4, 6), (4, 6)), joint)


def test_next_stage_and_baselines_take_what_they_can(make_settings: Callable, make_model: Callable) -> None:
    old, model = make_settings(), make_model()
    ft1 = make_settings("ft1")
    other = build_model(ft1)
    result = take_weights(other, refit(model.state_dict(), old, ft1), source="test")
    assert "encoder.joint_positions" in result.unused
    assert torch.equal(
        other.captioner.language.blocks[1].attention.output.weight,
        model.text_encoder.transformer.blocks[1].attention.output.weight,
    )
    words = make_settings(vocabulary={"size": 44})
    result = take_weights(build_model(words), refit(model.state_dict(), old, words), source="test")
    assert set(result.fresh) == {"words.words.weight", "captioner.predict.bias"}


def test_another_width_is_a_mistake(make_settings: Callable, make_model: Callable) -> None:
    other = build_model(make_settings(vision={"width": 32}))
    with pytest.raises(ModelError, match="has shape"):
        take_weights(other, make_model().state_dict(), source="test")
    with pytest.raises(ModelError, match="nothing that fits"):
        take_weights(other, {"something": torch.zeros(1)}, source="test")
