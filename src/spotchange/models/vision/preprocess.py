"""From images to what a model sees: Pillow images on numpy for every runtime, byte batches of training on torch.

Both resize alike (antialiased bicubic, unrounded), so that a model sees the same pixels by either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.errors import ModelError
from spotchange.images import shrunk

if TYPE_CHECKING:
    from torch import Tensor

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
RESIZE_POLICIES = ("squash", "crop")
LONGEST_SIDE = 8192


@dataclass(frozen=True, kw_only=True)
class Preprocessor:
    """Resize and normalise.

    `squash` gives the whole image the model's shape, so that no change can fall outside; `crop` is CLIP's
    own way: the shorter side fits, the middle is kept.
    """

    image_size: tuple[int, int]  # height, width
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD
    resize: str = "squash"

    def __post_init__(self) -> None:
        if self.resize not in RESIZE_POLICIES:
            raise ModelError(f"unknown resize policy '{self.resize}': choose one of {', '.join(RESIZE_POLICIES)}")
        if not all(1 <= side <= LONGEST_SIDE for side in self.image_size):
            raise ModelError(f"a model's images of {self.image_size[0]}x{self.image_size[1]} pixels make no sense")
        sound = len(self.mean) == len(self.std) == 3 and all(map(math.isfinite, (*self.mean, *self.std)))
        if not sound or not all(each > 0 for each in self.std):
            raise ModelError("a model's images need a finite mean and a positive deviation for each of three channels")

    def arrays(self, images: Sequence[Image.Image]) -> npt.NDArray[np.float32]:
        """Images of any sizes to float (N, 3, *image_size)."""
        mean, scale = _mean_and_scale(self)
        height, width = self.image_size
        batch = np.empty((len(images), 3, height, width), np.float32)
        for place, image in enumerate(images):
            nearer = shrunk(image if image.mode == "RGB" else image.convert("RGB"), width, height)
            pixels = _resized_planes(nearer, self)
            np.multiply(pixels - mean, scale, out=batch[place])
        return batch

    def __call__(self, images: Tensor | Sequence[Image.Image]) -> Tensor:
        """Images, or a uint8 batch (N, 3, height, width), to float (N, 3, *image_size) on the same device."""
        import torch

        if isinstance(images, torch.Tensor):
            return self.normalise(self._resized(images))
        return torch.from_numpy(self.arrays(images))

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixels from 0 to 255, of the model's size, to the range the weights know."""
        import torch

        mean, scale = (torch.from_numpy(each).to(pixels.device) for each in _mean_and_scale(self))
        return (pixels.float() - mean) * scale

    def _resized(self, pixels: Tensor) -> Tensor:
        height, width = self.image_size
        if pixels.shape[-2:] == (height, width):
            return pixels
        scaled, top, left = _scaled_size(self, pixels.shape[-2], pixels.shape[-1])
        return _interpolate(pixels, scaled)[..., top : top + height, left : left + width]

    def to_dict(self) -> dict[str, Any]:
        """As `preprocessor_config.json` of a transformers image processor, so that others can read it."""
        height, width = self.image_size
        crop = self.resize == "crop"
        return {
            "image_processor_type": "CLIPImageProcessor",
            "do_convert_rgb": True,
            "do_resize": True,
            "size": {"shortest_edge": min(height, width)} if crop else {"height": height, "width": width},
            "resample": 3,
            "do_center_crop": crop,
            "crop_size": {"height": height, "width": width},
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read `preprocessor_config.json`, ours or a CLIP model's."""
        try:
            crop = bool(values.get("do_center_crop", False))
            size = values["crop_size"] if crop or "crop_size" in values else values["size"]
            size = {"height": size, "width": size} if isinstance(size, int) else size
            mean, std = normalisation_in(values)
            return cls(
                image_size=(int(size["height"]), int(size["width"])),
                mean=mean,
                std=std,
                resize="crop" if crop else "squash",
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise ModelError(f"preprocessor_config.json lacks or garbles {error}") from error


def normalisation_in(values: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of an image processor's configuration, for pixels from 0 to 1."""
    scale = 255 * float(values.get("rescale_factor", 1 / 255))
    mean, std = values["image_mean"], values["image_std"]
    return tuple(float(each) / scale for each in mean), tuple(float(each) / scale for each in std)


def _mean_and_scale(settings: Preprocessor) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """For pixels from 0 to 255; (3, 1, 1) each."""
    mean = np.asarray(settings.mean, np.float32) * np.float32(255)
    scale = np.float32(1) / (np.asarray(settings.std, np.float32) * np.float32(255))
    return mean.reshape(3, 1, 1), scale.reshape(3, 1, 1)


def _scaled_size(settings: Preprocessor, height: int, width: int) -> tuple[tuple[int, int], int, int]:
    """Size to resize to, and the corner of what is then kept."""
    wanted_height, wanted_width = settings.image_size
    if settings.resize == "squash":
        return settings.image_size, 0, 0
    factor = max(wanted_height / height, wanted_width / width)
    scaled = (round(height * factor), round(width * factor))
    return scaled, (scaled[0] - wanted_height) // 2, (scaled[1] - wanted_width) // 2


def _resized_planes(image: Image.Image, settings: Preprocessor) -> npt.NDArray[np.float32]:
    """(3, *image_size) from 0 to 255."""
    height, width = settings.image_size
    if (image.height, image.width) == (height, width):
        return np.asarray(image, np.float32).transpose(2, 0, 1)
    scaled, top, left = _scaled_size(settings, image.height, image.width)
    # Plane by plane in Pillow's float mode: its 8-bit resize would round where torch does not.
    planes = [
        np.asarray(plane.convert("F").resize((scaled[1], scaled[0]), Image.Resampling.BICUBIC))
        for plane in image.split()
    ]
    result: npt.NDArray[np.float32] = np.clip(np.stack(planes)[:, top : top + height, left : left + width], 0, 255)
    return result


def _interpolate(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    # Antialiased, or small objects of large images would flicker; bicubic overshoots, hence the clamp.
    from torch.nn import functional as F

    resized = F.interpolate(pixels.float(), size=size, mode="bicubic", antialias=True, align_corners=False)
    return resized.clamp(0, 255)
