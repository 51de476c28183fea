"""Small models of every architecture, with random weights large enough to tell right from wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.models.build import build_model
from spotchange.models.clip4idc import Clip4idc

TINY_VIT: dict[str, Any] = {
    "image_size": [32, 48],
    "patch": 16,
    "width": 64,
    "heads": 2,
    "layers": 4,
    "output_width": 32,
}
TINY_TEXT: dict[str, Any] = {"width": 32, "heads": 2, "layers": 2, "context": 24}
TINY_CAPTIONER: dict[str, Any] = {"width": 32, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
TINY_RESNET: dict[str, Any] = {
    "backbone": "resnet",
    "resnet_depths": [1, 1, 1, 1],
    "resnet_channels": [16, 32, 48, 64],
    "image_size": [64, 96],
    "width": 32,
    "heads": 2,
    "output_width": 32,
}
WORDS = {"size": 30, "begin": 1, "end": 2, "pad": 0}


def tiny_settings(architecture: str = "clip4idc", **changes: dict[str, Any]) -> ModelSettings:
    """Settings of a model small enough to build in milliseconds."""
    values: dict[str, Any] = {
        "architecture": architecture,
        "vision": TINY_VIT | {"n_inter": 2 if architecture == "clip4idc" else 0},
        "text": TINY_TEXT,
        "captioner": TINY_CAPTIONER,
        "vocabulary": WORDS,
    }
    if architecture == "conventional":
        values["vision"] = TINY_RESNET | {"layers": 0, "freeze_backbone": True}
    for group, change in changes.items():
        values[group] = values.get(group, {}) | change
    return ModelSettings.model_validate(values)


def build_lively(settings: ModelSettings, seed: int = 0) -> Clip4idc:
    """A model whose random weights are large enough that words differ from pair to pair."""
    torch.manual_seed(seed)
    model = build_model(settings)
    assert isinstance(model, Clip4idc)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "network" not in name:
                parameter.add_(0.15 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture
def make_settings() -> Callable[..., ModelSettings]:
    return tiny_settings


@pytest.fixture
def tiny_resnet() -> dict[str, Any]:
    return TINY_RESNET


@pytest.fixture
def make_model() -> Callable[..., Clip4idc]:
    return lambda architecture="clip4idc", **changes: build_lively(tiny_settings(architecture, **changes))


@pytest.fixture
def images() -> Callable[[Clip4idc, int], tuple[Tensor, Tensor]]:
    def draw(model: Clip4idc, pairs: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(5)
        before, after = torch.randn(2, pairs, 3, *model.image_size, generator=generator)
        return before, after

    return draw


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Tiny tensors are slower on many threads, and very slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
