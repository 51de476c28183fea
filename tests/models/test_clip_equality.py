"""Our towers are CLIP's: the same random weights give transformers' numbers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from spotchange.models.weights.published.importing import import_model
from spotchange.models.weights.transformers_import import import_transformers

TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    return import_transformers()


def clip_folder(transformers: ModuleType, folder: Path, *, patch: int, size: int, activation: str) -> Any:
    """A small CLIP with random weights, saved as transformers saves it."""
    torch.manual_seed(patch)
    config = transformers.CLIPConfig(
        text_config={
            "hidden_size": 64,
            "intermediate_size": 256,
            "num_attention_heads": 1,
            "num_hidden_layers": 3,
            "vocab_size": 49408,
            "hidden_act": activation,
            "eos_token_id": 49407,
            "bos_token_id": 49406,
        },
        vision_config={
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_attention_heads": 2,
            "num_hidden_layers": 4,
            "patch_size": patch,
            "image_size": size,
            "hidden_act": activation,
        },
        projection_dim=32,
    )
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():  # the default start is so small that errors would hide
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize(("patch", "size", "activation"), [(32, 224, "quick_gelu"), (16, 64, "gelu"), (14, 70, "gelu")])
@torch.no_grad()
def test_towers_equal_transformers(
    transformers: ModuleType, tmp_path: Path, patch: int, size: int, activation: str
) -> None:
    theirs = clip_folder(transformers, tmp_path, patch=patch, size=size, activation=activation)
    ours = import_model(tmp_path, n_inter=0).model
    images = torch.randn(3, 3, size, size)
    # With no inter blocks, an image's patches pass exactly CLIP's blocks before they are marked as before or after.
    hidden = ours.encoder.backbone(images)
    seen = theirs.vision_model(images)
    torch.testing.assert_close(hidden, seen.last_hidden_state, **TOLERANCE)
    projected = ours.encoder.projection(ours.encoder.norm(hidden[:, 0]))
    torch.testing.assert_close(projected, theirs.visual_projection(seen.pooler_output), **TOLERANCE)
    ids = torch.tensor([[49406, 320, 736, 49407, 0, 0], [49406, 518, 3934, 871, 1933, 49407]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    text = ours.text_encoder(ours.words(ids), mask)
    said = theirs.text_model(ids, attention_mask=mask)
    torch.testing.assert_close(text, theirs.text_projection(said.pooler_output), **TOLERANCE)
    torch.testing.assert_close(ours.logit_scale, theirs.logit_scale, **TOLERANCE)
