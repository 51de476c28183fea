"""Cameras, light and the way to the file, drawn: what differs between two photos of the same, and whole changes."""

from __future__ import annotations

import torch
from torch import Tensor

from spotchange.everyday.imaging.chance import Draws
from spotchange.everyday.kinds import KIND_IDS
from spotchange.everyday.scenes import Looks, stack_images


def draw_looks(draws: Draws, kind: Tensor) -> Looks:
    """Both images share a look; the after image strays a little from it, or a lot where that is the change."""
    stray = torch.where(draws.happens(0.2), 0.0, torch.where(draws.happens(0.2), 2.0, 1.0))

    def is_kind(name: str) -> Tensor:
        return kind == KIND_IDS[name]

    gain = torch.exp(draws.one(-0.4, 0.2))
    other_gain = gain * torch.exp(draws.bell(1, 0.05)[:, 0] * stray)
    other_gain = torch.where(is_kind("brighter"), gain * draws.one(1.4, 2.1), other_gain)
    other_gain = torch.where(is_kind("darker"), gain * draws.one(0.3, 0.65), other_gain)
    contrast, saturation = draws.one(0.8, 1.15), draws.one(0.7, 1.2)
    other_saturation = saturation * (1 + draws.bell(1, 0.05)[:, 0] * stray)
    balance = 1 + draws.bell(3, 0.05)
    blur = torch.where(draws.happens(0.5), draws.one(0.0, 1.1), 0.0)
    other_blur = (blur + draws.one(-0.3, 0.4) * stray).clamp(0, 1.4)
    noise = torch.where(draws.happens(0.6), draws.one(0.0, 0.035), 0.0)
    coarse = torch.where(draws.happens(0.75), draws.one(0.05, 1.3), 0.0)
    slope = draws.bell(2, 0.12)
    return Looks(
        camera=stack_images(_still(draws), _moved(draws, stray, kind)),
        gain=stack_images(gain, other_gain),
        contrast=stack_images(contrast, contrast * (1 + draws.bell(1, 0.03)[:, 0] * stray)),
        saturation=stack_images(saturation, torch.where(is_kind("gray"), 0.0, other_saturation)),
        balance=stack_images(balance, balance * (1 + draws.bell(3, 0.02) * stray[:, None])),
        slope=stack_images(slope, slope + draws.bell(2, 0.05) * stray[:, None]),
        shade=stack_images(*_shades(draws)),
        veil=stack_images(*_veils(draws, is_kind("tint"))),
        blur=stack_images(blur, torch.where(is_kind("blur"), blur + draws.one(1.3, 1.9), other_blur).clamp(max=3.0)),
        noise=stack_images(noise, noise * draws.one(0.6, 1.5)),
        coarse=stack_images(coarse, coarse * torch.exp(draws.bell(1, 0.3)[:, 0] * stray)),
    )


def _still(draws: Draws) -> Tensor:
    """The before camera: the scene's own frame."""
    zero, one = torch.zeros_like(draws.keys, dtype=torch.float32), torch.ones_like(draws.keys, dtype=torch.float32)
    return torch.stack([one, zero, zero, zero, one, zero, zero, zero], dim=1)


def _moved(draws: Draws, stray: Tensor, kind: Tensor) -> Tensor:
    """The after camera: held again by hand, or cropped, or mirrored. Maps places of the image to the scene's."""
    angle = draws.bell(1, 0.008)[:, 0] * stray
    zoom = 1 + draws.bell(1, 0.012)[:, 0] * stray
    shift = draws.bell(2, 0.009) * stray[:, None]
    tilt = draws.bell(2, 0.006) * stray[:, None]
    cropped = kind == KIND_IDS["crop"]
    part = draws.one(0.5, 0.82)
    zoom = torch.where(cropped, zoom * part, zoom)
    corner = (draws.uniform(2) - 0.5) * (1 - part)[:, None]
    shift = torch.where(cropped[:, None], corner, shift)
    cos, sin = torch.cos(angle) * zoom, torch.sin(angle) * zoom
    across = torch.where(kind == KIND_IDS["mirror"], -1.0, 1.0)
    # About the middle: place = R (p - 1/2) + 1/2 + shift, then divided by 1 + tilt . (p - 1/2).
    a, b, c, d = cos * across, -sin, sin * across, cos
    move_x = 0.5 - 0.5 * (a + b) + shift[:, 0]
    move_y = 0.5 - 0.5 * (c + d) + shift[:, 1]
    return torch.stack([a, b, move_x, c, d, move_y, tilt[:, 0], tilt[:, 1]], dim=1)


def _shades(draws: Draws) -> tuple[Tensor, Tensor]:
    """A shadow over part of the scene: in both images, or, as when someone steps aside, in one."""
    place, radius = draws.uniform(2), draws.one(0.15, 0.5)
    dark = torch.where(draws.happens(0.3), draws.one(0.05, 0.3), 0.0)
    one_only, which = draws.happens(0.5), draws.happens(0.5)
    first = torch.where(one_only & which, 0.0, dark)
    second = torch.where(one_only & ~which, 0.0, dark)
    place_radius = torch.cat([place, radius[:, None]], dim=1)
    return torch.cat([place_radius, first[:, None]], 1), torch.cat([place_radius, second[:, None]], 1)


def _veils(draws: Draws, tinted: Tensor) -> tuple[Tensor, Tensor]:
    """Fog, dusk or a cold sky over the after image; a thin one over both now and then."""
    tones = torch.tensor(
        [[0.78, 0.8, 0.82], [0.95, 0.55, 0.25], [0.2, 0.32, 0.62], [0.75, 0.62, 0.35], [0.45, 0.62, 0.42]],
        device=tinted.device,
    )
    tone = tones[(draws.one() * len(tones)).long().clamp(max=len(tones) - 1)]
    thin = torch.where(draws.happens(0.12), draws.one(0.0, 0.15), 0.0)
    thick = torch.where(tinted, draws.one(0.28, 0.5), thin)
    return torch.cat([tone, thin[:, None]], 1), torch.cat([tone, thick[:, None]], 1)
