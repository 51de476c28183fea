"""The three images of every scene, with the effects that the settings ask for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from spotchange.config.scenes import LookRandomness
from spotchange.scene import AFTER, BEFORE, SAME, SceneBatch
from spotchange.scenes.rendering.effects import apply_effects
from spotchange.scenes.rendering.renderer import render

VIEWS = (BEFORE, AFTER, SAME)
_SEED_STEP = 0x9E3779B1  # keeps the draws of neighbouring seeds apart


def draw_views(
    batch: SceneBatch,
    look: LookRandomness,
    *,
    seed: int,
    width: int,
    height: int,
    quality: str,
    device: str,
    views: Sequence[int] = VIEWS,
) -> tuple[Tensor, Tensor]:
    """Draw every scene: before, after and from the third camera, unless fewer images are asked for.

    Args:
        batch: The scenes; their lamps and materials already have the look that was drawn for them.
        look: How strong blur, noise and JPEG are.
        seed: Of the world, for the draws of these effects.
        width: Of the images, in pixels.
        height: See width.
        quality: Effort of the renderer.
        device: Where to draw.
        images: Which of the three.

    Returns:
        uint8 images (S, views, 3, H, W) and object ids (S, views, H, W), 0 for the ground, else slot + 1.
    """
    drawn = render(batch, width=width, height=height, quality=quality, device=device, views=views)
    images, ids = torch.as_tensor(drawn.images), torch.as_tensor(drawn.ids)
    scene_id = torch.as_tensor(batch.scene_id)
    keys = scene_id[:, None] * len(VIEWS) + torch.tensor(tuple(views), device=images.device)
    keys = keys.flatten() + seed * _SEED_STEP % (1 << 62)
    changed = apply_effects(images.flatten(0, 1), keys, blur=look.blur, noise=look.noise, jpeg=look.jpeg)
    return changed.reshape(images.shape), ids
