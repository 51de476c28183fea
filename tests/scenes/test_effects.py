"""Blur, noise and JPEG do what they are named after, per image and reproducibly."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.scenes.rendering.effects import MOST_NOISE, _compress, apply_effects, uniform

OFF = {"blur": 0.0, "noise": 0.0, "jpeg": 0.0}


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    numbers = torch.Generator().manual_seed(1)
    coarse = torch.randint(0, 256, (6, 3, 12, 14), generator=numbers, dtype=torch.uint8)
    return coarse.repeat_interleave(10, 2).repeat_interleave(15, 3)  # (6, 3, 120, 210): edges, no multiple of 16


def roughness(images: torch.Tensor) -> float:
    return float((images[..., 1:].float() - images[..., :-1].float()).square().mean())


def test_nothing_asked_nothing_done(images: torch.Tensor) -> None:
    assert apply_effects(images, torch.arange(6), **OFF) is images


def test_each_image_depends_on_its_key_alone(images: torch.Tensor) -> None:
    everything = {"blur": 1.0, "noise": 1.0, "jpeg": 1.0}
    whole = apply_effects(images, torch.arange(6), **everything)
    part = apply_effects(images[3:5], torch.arange(3, 5), **everything)
    assert torch.equal(whole[3:5], part)
    assert not torch.equal(apply_effects(images[:1], torch.tensor([99]), **everything), whole[:1])


def test_blur_smooths_and_noise_roughens(images: torch.Tensor) -> None:
    keys = torch.arange(6)
    assert roughness(apply_effects(images, keys, **OFF | {"blur": 1.0})) < 0.9 * roughness(images)
    flat = torch.full((200, 3, 40, 40), 128, dtype=torch.uint8)
    noisy = apply_effects(flat, torch.arange(200), **OFF | {"noise": 1.0}).float().std((1, 2, 3))
    assert noisy.max() < 1.1 * MOST_NOISE
    assert float(noisy.mean()) == pytest.approx(MOST_NOISE / 2, rel=0.15)


@pytest.mark.parametrize("quality", [30, 60, 90])
def test_jpeg_is_close_to_a_real_one(images: torch.Tensor, quality: int) -> None:
    ours = _compress(images.float(), torch.full((6,), float(quality))).round().clamp(0, 255)
    for image, mine in zip(images, ours, strict=True):
        buffer = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
        real = torch.from_numpy(np.array(Image.open(buffer))).permute(2, 0, 1).float()
        loss, apart = (real - image).abs().mean(), (real - mine).abs().mean()
        assert apart < 0.5 * loss, (loss, apart)


def test_numbers_are_uniform() -> None:
    drawn = uniform(torch.arange(20000), 3)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = torch.histc(drawn, 10, 0, 1)
    assert (counts - 2000).abs().max() < 200
    assert abs(float(torch.corrcoef(torch.stack([drawn, uniform(torch.arange(20000), 4)]))[0, 1])) < 0.03
