"""What lies between a scene and its file: light and colour, blur, JPEG's blocks, the sensor's noise."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.everyday.chance import hashed, unit

_BLOCK = 8
_BOXES = (3, 7, 13)  # widths of the boxes that stand for blur 1, 2 and 3, each laid twice


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
    """(pictures, 3, side, side) and 0 to 3 a picture: between four stages of blur."""
    stages = [pixels]
    for box in _BOXES:
        once = F.avg_pool2d(pixels, box, stride=1, padding=box // 2, count_include_pad=False)
        stages.append(F.avg_pool2d(once, box, stride=1, padding=box // 2, count_include_pad=False))
    result = torch.zeros_like(pixels)
    for stage, picture in enumerate(stages):
        share = (1 - (amount - stage).abs()).clamp(min=0)
        result = result + share[:, None, None, None] * picture
    return result


def rounded_in_blocks(pixels: Tensor, coarse: Tensor) -> Tensor:
    """What JPEG does to (pictures, 3, side, side): brightness and colour of blocks of 8 x 8, rounded by frequency."""
    to_ycc, to_rgb = _colour_maps(pixels.device)
    cosines = _cosines(pixels.device)
    planes = torch.einsum("ij,njhw->nihw", to_ycc, pixels)
    blocks = planes.unflatten(3, (-1, _BLOCK)).unflatten(2, (-1, _BLOCK))  # (n, 3, rows, 8, columns, 8)
    waves = torch.einsum("ab,ncrbsd,ed->ncrase", cosines, blocks, cosines)
    steps = _steps(pixels.device)[None, :, None, :, None, :] * coarse[:, None, None, None, None, None]
    waves = torch.where(steps > 0, (waves / steps.clamp(min=1e-6)).round() * steps, waves)
    blocks = torch.einsum("ba,ncrbsd,de->ncrase", cosines, waves, cosines)
    planes = blocks.flatten(4, 5).flatten(2, 3)
    return torch.einsum("ij,njhw->nihw", to_rgb, planes)


def noisy(pixels: Tensor, amount: Tensor, numbers: Tensor, seed: int) -> Tensor:
    """Grain, the same for a scene wherever it is drawn."""
    height, width = pixels.shape[2:]
    place = torch.arange(height * width, device=pixels.device).view(height, width)
    key = hashed(numbers * 7919 + seed)
    key = torch.stack([key, hashed(key + 1)], dim=1).flatten()[:, None, None]
    first, second = hashed(place + key), hashed(place + key + 77_777_777)
    # Two numbers a pixel make three channels: grain is mostly brightness.
    bright = unit(first) + unit(second) - 1
    tints = [unit(first) - 0.5, unit(second) - 0.5, 0.5 - unit(first)]
    grain = torch.stack([2.0 * bright + tint for tint in tints], dim=1)
    return pixels + amount[:, None, None, None] * grain


@cache
def _cosines(device: torch.device) -> Tensor:
    frequency, place = torch.arange(_BLOCK)[:, None], torch.arange(_BLOCK)[None]
    waves = torch.cos(math.pi * (2 * place + 1) * frequency / (2 * _BLOCK)) * math.sqrt(2 / _BLOCK)
    waves[0] /= math.sqrt(2)
    return waves.to(device)


@cache
def _steps(device: torch.device) -> Tensor:
    """(3, 8, 8): rounding at quality one half, for pixels from 0 to 1: finer frequencies and colour more coarsely."""
    down, across = torch.arange(_BLOCK)[:, None], torch.arange(_BLOCK)[None]
    luma = (14 + 6.5 * (down + across)) / 255
    chroma = (20 + 13.0 * (down + across)).clamp(max=110) / 255
    return torch.stack([luma, chroma, chroma]).to(device)


@cache
def _colour_maps(device: torch.device) -> tuple[Tensor, Tensor]:
    to_ycc = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
    return to_ycc.to(device), torch.linalg.inv(to_ycc).to(device)
