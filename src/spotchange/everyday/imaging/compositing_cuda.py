"""Images on a GPU: all numbers of the scenes in two tables, as the kernels of `compositing_kernel.py` read them."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from spotchange.everyday.imaging.compositing_kernel import compose_kernel, finish_kernel
from spotchange.everyday.library import BACKGROUND_SIDE, SIDE, Library
from spotchange.everyday.scenes import Scenes, Things

_BLOCK = 512
_HEADER, _LAYER = 36, 20  # numbers an image, numbers a layer


def compose_in_one_pass(
    library: Library, scenes: Scenes, things: Things, order: Tensor, level: Tensor, target: Tensor, *, side: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Developed pixels (scenes, 2, 3, side, side), `changed` and `label`; layers come in drawing order."""
    pairs, _, layers = order.shape
    images = 2 * pairs
    offsets = library.offsets[things.view]
    tile = offsets.gather(3, level[..., None])[..., 0].contiguous()
    soft = offsets[..., 2].contiguous()
    device = order.device
    out = torch.empty(images, 3, side, side, device=device)
    changed = torch.empty(pairs, 2, side, side, device=device)
    label = torch.empty(pairs, 2, side, side, dtype=torch.int8, device=device)
    background = (scenes.background * BACKGROUND_SIDE**2).repeat_interleave(2)
    grid = (images, triton.cdiv(side * side, _BLOCK))
    compose_kernel[grid](
        library.atlas,
        library.backgrounds,
        _header(scenes),
        _layers(things, order, level, target),
        tile,
        soft,
        background,
        out,
        changed,
        label,
        side,
        LAYERS=layers,
        HEADER=_HEADER,
        LAYER=_LAYER,
        BACKGROUND=BACKGROUND_SIDE,
        SOFT=SIDE >> 2,
        BLOCK=_BLOCK,
        num_warps=4,
    )
    return out.unflatten(0, (pairs, 2)), changed, label


def finish_in_one_pass(pixels: Tensor, amount: Tensor, keys: Tensor) -> Tensor:
    """Images (images, 3, side, side) with grain, as bytes."""
    pixels = pixels.contiguous()
    out = torch.empty(pixels.shape, dtype=torch.uint8, device=pixels.device)
    area = pixels.shape[2] * pixels.shape[3]
    grid = (len(pixels), triton.cdiv(area, 1024))
    finish_kernel[grid](pixels, amount.contiguous(), keys.contiguous(), out, area, BLOCK=1024, num_warps=4)
    return out


def _header(scenes: Scenes) -> Tensor:
    """Everything that holds for a whole image: float32 (images, _HEADER)."""
    looks = scenes.looks
    shared = [scenes.window, scenes.mirrored_background[:, None].float(), scenes.light, scenes.contact[:, None]]
    both = torch.cat(shared, dim=1)[:, None].expand(-1, 2, -1)
    own = [
        looks.camera,
        both,
        torch.stack([looks.gain, looks.contrast, looks.saturation], dim=2),
        looks.balance,
        looks.slope,
        looks.shade,
        looks.veil,
    ]
    packed = torch.cat(own, dim=2).flatten(0, 1)
    return torch.nn.functional.pad(packed, (0, _HEADER - packed.shape[1])).contiguous()


def _layers(things: Things, order: Tensor, level: Tensor, target: Tensor) -> Tensor:
    """Everything that holds for one thing in one image: float32 (images, layers, _LAYER)."""
    whole = (things.cut_high - things.cut_low > 0.9) & (things.angle.abs() < 0.5)
    columns = [
        things.on,
        things.x,
        things.y,
        things.width,
        things.height,
        torch.cos(things.angle),
        torch.sin(things.angle),
        1.0 - 2.0 * things.flipped.float(),
        things.cut_low,
        things.cut_high,
        things.painted,
        things.gain,
        *things.paint.unbind(3),
        target,
        whole,
        SIDE / 2.0 ** level.float(),
        order,
    ]
    packed = torch.stack([column.float() for column in columns], dim=3).flatten(0, 1)
    return torch.nn.functional.pad(packed, (0, _LAYER - packed.shape[2])).contiguous()
