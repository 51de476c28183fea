"""What lies between a scene and its file: light and colour, blur, JPEG's blocks, the sensor's noise."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.everyday.imaging.chance import hashed, unit

_BLOCK = 8
_SHRUNK = (4, 8)  # how much smaller the images are that stand for blur 2 and 3


def developed(
    pixels: Tensor,
    x: Tensor,
    y: Tensor,
    gain: Tensor,
    contrast: Tensor,
    saturation: Tensor,
    balance: Tensor,
    slope: Tensor,
    shade: Tensor,
    veil: Tensor,
) -> Tensor:
    """Light and colour of the pixels (scenes, 2, 3, side, side), 0 to 1."""
    far = ((x - shade[:, :, 0]) ** 2 + (y - shade[:, :, 1]) ** 2) / shade[:, :, 2] ** 2
    lit = (1 - shade[:, :, 3] * torch.exp(-far)) * (1 + slope[:, :, 0] * (x - 0.5) + slope[:, :, 1] * (y - 0.5))
    pixels = pixels * balance * gain * lit[:, :, None]
    gray = (0.3 * pixels[:, :, 0] + 0.59 * pixels[:, :, 1] + 0.11 * pixels[:, :, 2])[:, :, None]
    pixels = gray + saturation * (pixels - gray)
    pixels = 0.45 + contrast * (pixels - 0.45)
    pixels = pixels * (1 - veil[:, :, 3:]) + veil[:, :, :3] * veil[:, :, 3:]
    return pixels.clamp(0, 1)


def blurred(pixels: Tensor, amount: Tensor) -> Tensor:
    """(images, 3, side, side) and 0 to 3 an image: between four stages of blur, the wide ones made small."""
    stages = [pixels, _boxed(_boxed(pixels))]
    for shrunk in _SHRUNK:
        small = _boxed(F.avg_pool2d(pixels, shrunk))
        stages.append(F.interpolate(small, size=pixels.shape[2:], mode="bilinear", align_corners=False))
    result = torch.zeros_like(pixels)
    for stage, image in enumerate(stages):
        share = (1 - (amount - stage).abs()).clamp(min=0)
        result.addcmul_(share[:, None, None, None], image)
    return result


def _boxed(pixels: Tensor) -> Tensor:
    return F.avg_pool2d(pixels, 3, stride=1, padding=1, count_include_pad=False)


def rounded_in_blocks(pixels: Tensor, coarse: Tensor) -> Tensor:
    """What JPEG does to (images, 3, side, side): brightness and colour of blocks of 8 x 8, rounded by frequency."""
    forth, back, steps = _block_maps(pixels.device)
    rows, columns = pixels.shape[2] // _BLOCK, pixels.shape[3] // _BLOCK
    blocks = pixels.view(-1, 3, rows, _BLOCK, columns, _BLOCK).permute(0, 2, 4, 1, 3, 5).reshape(-1, 3 * _BLOCK**2)
    waves = (blocks @ forth).view(len(pixels), rows * columns, -1)
    step = (steps * coarse[:, None])[:, None]  # (images, 1, frequencies)
    fine = coarse[:, None, None] <= 0
    waves = torch.where(fine, waves, (waves / step.clamp(min=1e-6)).round_() * step)
    blocks = (waves.flatten(0, 1) @ back).view(-1, rows, columns, 3, _BLOCK, _BLOCK)
    return blocks.permute(0, 3, 1, 4, 2, 5).reshape(pixels.shape)


def grain_keys(numbers: Tensor, seed: int) -> Tensor:
    """Where each image's grain begins: int64 (2 scenes,)."""
    key = hashed(numbers * 7919 + seed)
    return torch.stack([key, hashed(key + 1)], dim=1).flatten()


def noisy(pixels: Tensor, amount: Tensor, keys: Tensor) -> Tensor:
    """Grain, the same for a scene wherever it is drawn, and pixels from 0 to 1 as bytes."""
    height, width = pixels.shape[2:]
    place = torch.arange(height * width, device=pixels.device).view(height, width)
    first = unit(hashed(place + keys[:, None, None]))
    second = unit(hashed(place + keys[:, None, None] + 77_777_777))
    # Two numbers a pixel make three channels: grain is mostly brightness.
    bright = 2.0 * (first + second - 1)
    grain = torch.stack([bright + first - 0.5, bright + second - 0.5, bright + 0.5 - first], dim=1)
    return ((pixels + amount[:, None, None, None] * grain) * 255 + 0.5).floor().clamp(0, 255).to(torch.uint8)


@cache
def _block_maps(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """From a block's 192 numbers to its waves of brightness and colour, back, and the waves' steps."""
    to_ycc = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
    cosines = torch.kron(_cosines(), _cosines())  # (64, 64): two directions at once
    forth = torch.kron(to_ycc, cosines).T
    return forth.to(device), torch.linalg.inv(forth).to(device), _steps().flatten().to(device)


def _cosines() -> Tensor:
    frequency, place = torch.arange(_BLOCK)[:, None], torch.arange(_BLOCK)[None]
    waves = torch.cos(math.pi * (2 * place + 1) * frequency / (2 * _BLOCK)) * math.sqrt(2 / _BLOCK)
    waves[0] /= math.sqrt(2)
    return waves


def _steps() -> Tensor:
    """(3, 8, 8): rounding at quality one half, for pixels from 0 to 1: finer frequencies and colour more coarsely."""
    down, across = torch.arange(_BLOCK)[:, None], torch.arange(_BLOCK)[None]
    luma = (14 + 6.5 * (down + across)) / 255
    chroma = (20 + 13.0 * (down + across)).clamp(max=110) / 255
    return torch.stack([luma, chroma, chroma])
