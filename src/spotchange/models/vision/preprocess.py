"""From pictures to what a model sees: one path for PIL pictures on the CPU and uint8 batches on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from spotchange.errors import ModelError

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
RESIZE_POLICIES = ("squash", "crop")


@dataclass(frozen=True, kw_only=True)
class Preprocessor:
    """Resize and normalise.

    `squash` gives the whole picture the model's shape, so that no change can fall outside; `crop` is CLIP's
    own way: the shorter side fits, the middle is kept.
    """

    image_size: tuple[int, int]  # height, width
    mean: tuple[float, ...] = CLIP_MEAN
    std: tuple[float, ...] = CLIP_STD
    resize: str = "squash"

    def __post_init__(self) -> None:
        if self.resize not in RESIZE_POLICIES:
            raise ModelError(f"unknown resize policy '{self.resize}': choose one of {', '.join(RESIZE_POLICIES)}")

    def __call__(self, pictures: Tensor | Sequence[Image.Image]) -> Tensor:
        """Pictures, or a uint8 batch (N, 3, height, width), to float (N, 3, *image_size) on the same device."""
        if isinstance(pictures, Tensor):
            return self.normalise(self._resized(pictures))
        return self.normalise(torch.cat([self._resized(to_tensor(picture)) for picture in pictures]))

    def normalise(self, pixels: Tensor) -> Tensor:
        """Pixels from 0 to 255, of the model's size, to the range the weights know."""
        mean = torch.tensor(self.mean, device=pixels.device).mul(255).view(3, 1, 1)
        scale = torch.tensor(self.std, device=pixels.device).mul(255).reciprocal().view(3, 1, 1)
        return (pixels.float() - mean) * scale

    def _resized(self, pixels: Tensor) -> Tensor:
        height, width = self.image_size
        if pixels.shape[-2:] == (height, width):
            return pixels
        if self.resize == "crop":
            factor = max(height / pixels.shape[-2], width / pixels.shape[-1])
            scaled = (round(pixels.shape[-2] * factor), round(pixels.shape[-1] * factor))
            pixels = _interpolate(pixels, scaled)
            top, left = (scaled[0] - height) // 2, (scaled[1] - width) // 2
            return pixels[..., top : top + height, left : left + width]
        return _interpolate(pixels, (height, width))

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
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"preprocessor_config.json lacks or garbles {error}") from error


def normalisation_in(values: dict[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of an image processor's configuration, for pixels from 0 to 1."""
    scale = 255 * float(values.get("rescale_factor", 1 / 255))
    mean, std = values["image_mean"], values["image_std"]
    return tuple(float(each) / scale for each in mean), tuple(float(each) / scale for each in std)


def to_tensor(picture: Image.Image) -> Tensor:
    """uint8 (1, 3, height, width)."""
    array = np.array(picture if picture.mode == "RGB" else picture.convert("RGB"))
    return torch.from_numpy(array).permute(2, 0, 1)[None]


def _interpolate(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    # Antialiased, or small objects of large pictures would flicker; bicubic overshoots, hence the clamp.
    resized = F.interpolate(pixels.float(), size=size, mode="bicubic", antialias=True, align_corners=False)
    return resized.clamp(0, 255)
