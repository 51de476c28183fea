"""What a camera and a file format do to a finished image: blur, noise and JPEG, on whole batches of tensors.

How strong each effect is, and where the noise is cut from, hangs on the scene's number and the image alone.
"""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as functional
from torch import Tensor

MOST_BLUR = 1.2  # standard deviation in pixels of an image 224 wide
MOST_NOISE = 10.0  # standard deviation in levels of 255
WORST_JPEG = 30  # quality
IMAGES_AT_ONCE = 256  # bounds the memory for floating-point copies
SPARE = 251  # the sheet of noise is this much larger than an image

_LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29,
    51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121,
    120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
_CHROMINANCE = (17, 18, 24, 47, 18, 21, 26, 66, 24, 26, 56, 99, 47, 66, 99, 99)  # upper left; all others are 99
_STEP = 0x9E3779B97F4A7C15
_MASK_34, _MASK_37, _MASK_33 = (1 << 34) - 1, (1 << 37) - 1, (1 << 33) - 1


def apply_effects(images: Tensor, keys: Tensor, *, blur: float, noise: float, jpeg: float) -> Tensor:
    """Images as a worse camera would have given them.

    Args:
        images: uint8 (images, 3, H, W).
        keys: int64 (images,): what the draws of an image hang on.
        blur: Strength from 0 (off) to 1, like the others.
        noise: See blur.
        jpeg: See blur.
    """
    if not (blur or noise or jpeg):
        return images
    result = torch.empty_like(images)
    for start in range(0, len(images), IMAGES_AT_ONCE):
        part = slice(start, start + IMAGES_AT_ONCE)
        pixels, key = images[part].float(), keys[part]
        if blur:
            pixels = _blur(pixels, MOST_BLUR * blur * uniform(key, 1) * images.shape[-1] / 224)
        if noise:
            pixels = _add_noise(pixels, MOST_NOISE * noise * uniform(key, 2), key)
        if jpeg:
            pixels = _compress(pixels, 100 - (100 - WORST_JPEG) * jpeg * uniform(key, 3))
        result[part] = pixels.round().clamp(0, 255).to(torch.uint8)
    return result


def uniform(keys: Tensor, index: int) -> Tensor:
    """Numbers in [0, 1) by key and index: SplitMix64 in signed arithmetic, which wraps as unsigned would."""
    bits = keys + ((index * _STEP + (1 << 63)) % (1 << 64) - (1 << 63))
    bits = (bits ^ ((bits >> 30) & _MASK_34)) * -4658895280553007687
    bits = (bits ^ ((bits >> 27) & _MASK_37)) * -7723592293110705685
    bits = bits ^ ((bits >> 31) & _MASK_33)
    return ((bits >> 40) & 0xFFFFFF).float() / (1 << 24)


def _blur(pixels: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur, a width of its own for every image."""
    reach = max(1, math.ceil(2.5 * MOST_BLUR * pixels.shape[-1] / 224))
    steps = torch.arange(-reach, reach + 1, device=pixels.device)
    weights = torch.exp(-0.5 * (steps / sigma.clamp(min=0.05)[:, None]) ** 2)
    weights = weights / weights.sum(1, keepdim=True)  # (images, taps)
    images, channels, height, width = pixels.shape
    weights = weights.repeat_interleave(channels, 0)
    planes = functional.pad(pixels.reshape(1, -1, height, width), [reach] * 4, mode="replicate")
    planes = functional.conv2d(planes, weights[:, None, None, :], groups=len(weights))
    planes = functional.conv2d(planes, weights[:, None, :, None], groups=len(weights))
    return planes.reshape(images, channels, height, width)


def _add_noise(pixels: Tensor, sigma: Tensor, keys: Tensor) -> Tensor:
    """Gaussian noise, cut for every image from another place of one large sheet."""
    height, width = pixels.shape[-2:]
    sheet = _noise_sheet(height, width, pixels.device)
    rows = (uniform(keys, 4) * SPARE).long()[:, None] + torch.arange(height, device=pixels.device)
    columns = (uniform(keys, 5) * SPARE).long()[:, None] + torch.arange(width, device=pixels.device)
    cut = sheet[:, rows[:, :, None], columns[:, None, :]]  # (3, images, H, W)
    return pixels + sigma[:, None, None, None] * cut.transpose(0, 1)


@cache
def _noise_sheet(height: int, width: int, device: torch.device) -> Tensor:
    numbers = torch.Generator().manual_seed(0)
    return torch.randn(3, height + SPARE, width + SPARE, generator=numbers).to(device)


def _compress(pixels: Tensor, quality: Tensor) -> Tensor:
    """What is left after JPEG with half as many pixels of colour on each side."""
    height, width = pixels.shape[-2:]
    padded = functional.pad(pixels, (0, -width % 16, 0, -height % 16), mode="replicate")
    red, green, blue = padded.unbind(1)
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    colors = torch.stack([(blue - light) / 1.772, (red - light) / 1.402], 1)
    scale = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality) / 100
    light = _quantize(light[:, None] - 128, scale, _table(_LUMINANCE, pixels.device))[:, 0] + 128
    colors = _quantize(functional.avg_pool2d(colors, 2), scale, _table(_chrominance(), pixels.device))
    blueness, redness = functional.interpolate(colors, scale_factor=2.0, mode="bilinear").unbind(1)
    green = light - 0.344136 * blueness - 0.714136 * redness
    restored = torch.stack([light + 1.402 * redness, green, light + 1.772 * blueness], 1)
    return restored[..., :height, :width]


def _quantize(planes: Tensor, scale: Tensor, table: Tensor) -> Tensor:
    """Round the cosine transform of every 8x8 block to multiples of the scaled table."""
    images, channels, height, width = planes.shape
    basis = _cosines(planes.device)
    blocks = planes.reshape(images, channels, height // 8, 8, width // 8, 8).transpose(3, 4)
    steps = (table * scale[:, None, None]).round().clamp(1, 255)[:, None, None, None]
    waves = (basis @ blocks @ basis.T / steps).round() * steps
    return (basis.T @ waves @ basis).transpose(3, 4).reshape(images, channels, height, width)


@cache
def _cosines(device: torch.device) -> Tensor:
    row, column = torch.arange(8.0)[:, None], torch.arange(8.0)
    basis = torch.cos(math.pi * (2 * column + 1) * row / 16) / 2
    basis[0] /= math.sqrt(2)
    return basis.to(device)


@cache
def _table(values: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device).reshape(8, 8)


def _chrominance() -> tuple[int, ...]:
    table = [99] * 64
    for index, value in enumerate(_CHROMINANCE):
        table[index // 4 * 8 + index % 4] = value
    return tuple(table)
