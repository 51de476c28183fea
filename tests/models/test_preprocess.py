"""From images to tensors: the same numbers by every way in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.errors import ModelError
from spotchange.models.vision.preprocess import CLIP_MEAN, CLIP_STD, Preprocessor


def image(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth noise, as photographs are."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def to_tensor(image: Image.Image) -> torch.Tensor:
    """uint8 (1, 3, height, width)."""
    return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)[None]


def test_images_and_byte_batches_agree() -> None:
    images = [image(90, 60, seed) for seed in range(3)]
    preprocessor = Preprocessor(image_size=(48, 72))
    batch = torch.cat([to_tensor(each) for each in images])
    torch.testing.assert_close(preprocessor(images), preprocessor(batch))
    assert preprocessor(images).shape == (3, 3, 48, 72)


def test_own_size_is_only_normalised() -> None:
    original = image(72, 48)
    expected = (np.asarray(original) / 255 - CLIP_MEAN) / CLIP_STD
    ours = Preprocessor(image_size=(48, 72))([original])[0].permute(1, 2, 0)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)


def test_resize_is_pillows() -> None:
    """Antialiased bicubic, as CLIP's own preprocessing does it with Pillow; only rounding differs."""
    original = image(300, 200)
    theirs = np.asarray(original.resize((72, 48), Image.Resampling.BICUBIC), dtype=np.float32)
    ours = Preprocessor(image_size=(48, 72), mean=(0, 0, 0), std=(1 / 255,) * 3)([original])[0].permute(1, 2, 0)
    assert np.abs(ours.numpy() - theirs).max() < 1.5


def test_crop_keeps_the_middle() -> None:
    wide = np.zeros((50, 150, 3), dtype=np.uint8)
    wide[:, 50:100] = 255
    preprocessor = Preprocessor(image_size=(50, 50), mean=(0, 0, 0), std=(1, 1, 1), resize="crop")
    assert preprocessor([Image.fromarray(wide)]).min() > 0.99
    squashed = Preprocessor(image_size=(50, 50), mean=(0, 0, 0), std=(1, 1, 1))([Image.fromarray(wide)])
    assert squashed.min() < 0.01


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_settings_round_trip(resize: str) -> None:
    preprocessor = Preprocessor(image_size=(48, 72), resize=resize)
    assert Preprocessor.from_dict(preprocessor.to_dict()) == preprocessor


@pytest.mark.parametrize("mean", [("nan", 0, 0), (1e400, 0, 0), (0, 0)])
def test_numbers_that_are_none_are_refused(mean: tuple[float, ...]) -> None:
    values = Preprocessor(image_size=(32, 48)).to_dict() | {"image_mean": list(mean)}
    with pytest.raises(ModelError):
        Preprocessor.from_dict(values)


def test_clips_own_file_is_understood() -> None:
    theirs = {"crop_size": 224, "do_center_crop": True, "size": 224, "image_mean": CLIP_MEAN, "image_std": CLIP_STD}
    assert Preprocessor.from_dict(theirs) == Preprocessor(image_size=(224, 224), resize="crop")
    unscaled = {"rescale_factor": 1.0, "image_mean": [255, 0, 51], "image_std": [255.0] * 3, "size": 224}
    assert Preprocessor.from_dict(unscaled).mean == (1.0, 0.0, 0.2)
    assert Preprocessor.from_dict(unscaled).std == (1.0, 1.0, 1.0)
    with pytest.raises(ModelError):
        Preprocessor.from_dict({"size": 224})
    with pytest.raises(ModelError, match="stretch"):
        Preprocessor(image_size=(1, 1), resize="stretch")


@pytest.mark.parametrize("resize", ["squash", "crop"])
@pytest.mark.parametrize("size", [(320, 240), (480, 320), (61, 200), (288, 192), (288, 77), (1200, 900), (3, 2)])
def test_images_resized_by_pillow_are_those_resized_by_torch(size: tuple[int, int], resize: str) -> None:
    image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    preprocessor = Preprocessor(image_size=(192, 288), resize=resize)
    ours = preprocessor.arrays([image])
    theirs = preprocessor(to_tensor(image)).numpy()
    assert ours.dtype == np.float32
    # A hundredth of a grey level: torch computes the filter in fp32, Pillow in double precision.
    np.testing.assert_allclose(ours, theirs, atol=0.01 / 255 / min(CLIP_STD))


def test_large_images_are_reduced_in_steps_to_the_same_numbers() -> None:
    large = image(1600, 1200)
    preprocessor = Preprocessor(image_size=(48, 72))
    at_once = preprocessor(to_tensor(large))
    assert float((preprocessor([large]) - at_once).abs().max()) < 0.02
