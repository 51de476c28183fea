"""Two towers for single images: they learn a batch apart, refuse models of pairs, and can be built on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spotchange.config.model import ModelSettings
from spotchange.config.objectives import ImageTextSettings
from spotchange.errors import ConfigError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.weights.folder import read_weights, save_model
from spotchange.models.weights.transfer import refit, take_weights
from spotchange.training.objectives.adapt import ImageTextObjective

HALF = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
TOWERS = {
    "preset": "scene-clip",
    "vision": {
        "image_size": [24, 36],
        "patch": 12,
        "width": 16,
        "heads": 2,
        "layers": 2,
        "n_inter": 0,
        "output_width": 16,
        "stem_channels": [8, 8],
    },
    "text": {"width": 16, "layers": 1, "heads": 2, "context": 24},
}


def towers() -> tuple[ModelSettings, torch.nn.Module]:
    torch.manual_seed(1)
    settings = ModelSettings.model_validate(TOWERS)
    return settings, build_model(settings)


def test_a_batch_is_learnt_apart(make_batch) -> None:
    objective = ImageTextObjective(towers()[1], ImageTextSettings(kind="image-text"), **HALF)
    batch = make_batch(8, seed=1)
    optimizer = torch.optim.Adam(objective.parameters(), lr=3e-3)
    losses = []
    for _ in range(60):
        loss = objective(batch)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        objective.after_step()
        losses.append(float(loss.detach()))
    assert losses[0] > 1.5  # ln 8 is 2.08
    assert losses[-1] < 0.3
    similarity = objective.seen_embedding(batch) @ objective.model.embed_text(batch.caption_ids, batch.caption_mask).T
    assert (similarity.argmax(1) == torch.arange(8)).all()


def test_only_the_first_image_is_read(make_batch) -> None:
    objective = ImageTextObjective(towers()[1], ImageTextSettings(kind="image-text"), **HALF)
    batch, other = make_batch(4, seed=1), make_batch(4, seed=2)
    expected = objective.seen_embedding(batch)
    assert torch.equal(objective.seen_embedding(type(batch)(**{**vars(batch), "after": other.after})), expected)
    assert torch.allclose(expected.norm(dim=1), torch.ones(4))


def test_a_model_that_sees_pairs_is_refused(tiny_model: torch.nn.Module) -> None:
    with pytest.raises(ConfigError, match="single images only"):
        ImageTextObjective(tiny_model, ImageTextSettings(kind="image-text"), **HALF)


def test_both_towers_start_clip4idc(tmp_path: Path) -> None:
    settings, model = towers()
    save_model(
        tmp_path / "towers",
        model=model,
        settings=settings,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(settings),
    )
    wanted = ModelSettings.model_validate(
        {**TOWERS, "preset": "scene-clip4idc", "vision": {**TOWERS["vision"], "n_inter": 1}, "captioner": {"width": 16}}
    )
    built = build_model(wanted)
    state = refit(read_weights(tmp_path / "towers"), settings, wanted)
    transfer = take_weights(built, state, source="towers")
    assert not transfer.unused
    fresh = {name for name in transfer.fresh if not name.startswith("captioner.")}
    assert fresh == {"encoder.joint_positions", "encoder.joint_norm.weight", "encoder.joint_norm.bias"}
    state = built.state_dict()
    assert torch.equal(
        state["encoder.inter.0.attention.output.weight"],
        model.state_dict()["encoder.backbone.blocks.1.attention.output.weight"],
    )
