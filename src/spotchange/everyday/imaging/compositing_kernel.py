"""The compositor for CUDA in Triton: every pixel is looked at once, with all things over it, and written once.

It computes what `compositing.py` computes step by step on the CPU; the tests hold them together.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from spotchange.everyday.library import BACKGROUND_SIDE, SIDE, Library
from spotchange.everyday.scenes import Scenes, Things

_BLOCK = 512
_HEADER, _LAYER = 36, 20  # numbers an image, numbers a layer


@triton.jit
def _looked_up(atlas, offset, side, u, v, mask):
    last = side - 1.0
    x = tl.minimum(tl.maximum(u * side - 0.5, 0.0), last)
    y = tl.minimum(tl.maximum(v * side - 0.5, 0.0), last)
    left = tl.floor(x)
    top = tl.floor(y)
    part_x = x - left
    part_y = y - top
    right = tl.minimum(left + 1.0, last)
    low = tl.minimum(top + 1.0, last)
    row = offset + (top * side).to(tl.int64)
    next_row = offset + (low * side).to(tl.int64)
    one = tl.load(atlas + row + left.to(tl.int64), mask=mask, other=0)
    two = tl.load(atlas + row + right.to(tl.int64), mask=mask, other=0)
    three = tl.load(atlas + next_row + left.to(tl.int64), mask=mask, other=0)
    four = tl.load(atlas + next_row + right.to(tl.int64), mask=mask, other=0)
    a = (1.0 - part_x) * (1.0 - part_y)
    b = part_x * (1.0 - part_y)
    c = (1.0 - part_x) * part_y
    d = part_x * part_y
    scale = 1.0 / 255.0
    red = (one & 255) * a + (two & 255) * b + (three & 255) * c + (four & 255) * d
    green = ((one >> 8) & 255) * a + ((two >> 8) & 255) * b + ((three >> 8) & 255) * c + ((four >> 8) & 255) * d
    blue = ((one >> 16) & 255) * a + ((two >> 16) & 255) * b + ((three >> 16) & 255) * c + ((four >> 16) & 255) * d
    alpha = ((one >> 24) & 255) * a + ((two >> 24) & 255) * b + ((three >> 24) & 255) * c + ((four >> 24) & 255) * d
    return red * scale, green * scale, blue * scale, alpha * scale


@triton.jit
def _folded(place):
    place = tl.abs(place)
    place = place - 2.0 * tl.floor(place * 0.5)
    return tl.where(place > 1.0, 2.0 - place, place)


@triton.jit
def _compose(
    atlas,
    backgrounds,
    header,
    layers,
    offsets,
    softs,
    background_offsets,
    out,
    changed_out,
    label_out,
    side,
    LAYERS: tl.constexpr,
    HEADER: tl.constexpr,
    LAYER: tl.constexpr,
    BACKGROUND: tl.constexpr,
    SOFT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = pixel < side * side
    head = header + image * HEADER
    px = ((pixel % side).to(tl.float32) + 0.5) / side
    py = ((pixel // side).to(tl.float32) + 0.5) / side
    far = 1.0 + tl.load(head + 6) * (px - 0.5) + tl.load(head + 7) * (py - 0.5)
    x = (tl.load(head + 0) * px + tl.load(head + 1) * py + tl.load(head + 2)) / far
    y = (tl.load(head + 3) * px + tl.load(head + 4) * py + tl.load(head + 5)) / far

    # The background.
    across = tl.where(tl.load(head + 12) > 0.5, 1.0 - x, x)
    u = _folded(tl.load(head + 8) + across * tl.load(head + 10))
    v = _folded(tl.load(head + 9) + y * tl.load(head + 11))
    whole = tl.full([BLOCK], BACKGROUND, tl.float32)
    start = tl.load(background_offsets + image)
    red, green, blue, _ = _looked_up(backgrounds, start, whole, u, v, mask)
    changed = tl.zeros([BLOCK], tl.float32)
    label = tl.full([BLOCK], -1.0, tl.float32)
    shear = tl.load(head + 13)
    long = tl.load(head + 14)
    dark = tl.load(head + 15)
    contact = tl.load(head + 16)

    for layer in range(LAYERS):
        thing = layers + (image * LAYERS + layer) * LAYER
        if tl.load(thing) > 0.5:
            mid_x = tl.load(thing + 1)
            mid_y = tl.load(thing + 2)
            width = tl.load(thing + 3)
            height = tl.load(thing + 4)
            # Shadows.
            stands = mid_y + height * 0.5
            spot_x = (x - mid_x) / (0.5 * width)
            spot_y = (y - stands) / (0.07 * height + 0.012)
            shadow = contact * tl.exp(-1.3 * (spot_x * spot_x + spot_y * spot_y))
            up = (stands - y) / (long * height)
            over = (x - mid_x - shear * (stands - y)) / width + 0.5
            whole_thing = tl.load(thing + 16)  # 0 for what is cut or fallen: it casts no outline
            lies = (up * whole_thing > 0.0) & (up < 1.0) & (over > 0.0) & (over < 1.0) & mask
            soft_side = tl.full([BLOCK], SOFT, tl.float32)
            soft = tl.load(softs + image * LAYERS + layer)
            _, _, _, outline = _looked_up(atlas, soft, soft_side, over, 1.0 - up, lies)
            cast = tl.where(lies, dark * outline * (1.0 - 0.6 * up), 0.0)
            lit = (1.0 - shadow) * (1.0 - cast)
            red = red * lit
            green = green * lit
            blue = blue * lit
            # The cut-out itself.
            cos = tl.load(thing + 5)
            sin = tl.load(thing + 6)
            from_x = x - mid_x
            from_y = y - mid_y
            u = (cos * from_x + sin * from_y) / width
            v = (cos * from_y - sin * from_x) / height + 0.5
            u = u * tl.load(thing + 7) + 0.5
            inside = (u > tl.load(thing + 8)) & (u < tl.load(thing + 9)) & (v > 0.0) & (v < 1.0) & mask
            tile = tl.load(offsets + image * LAYERS + layer)
            tile_side = tl.full([BLOCK], 1.0, tl.float32) * tl.load(thing + 17)
            own_red, own_green, own_blue, alpha = _looked_up(atlas, tile, tile_side, u, v, inside)
            painted = tl.load(thing + 10)
            gain = tl.load(thing + 11)
            bright = 0.3 * own_red + 0.59 * own_green + 0.11 * own_blue
            paint = tl.load(thing + 12)
            ink = 0.25 * alpha * paint + (0.45 + 0.6 * paint) * bright * paint + 0.12 * bright
            red = tl.minimum(gain * ((1.0 - painted) * own_red + painted * ink), alpha) + red * (1.0 - alpha)
            paint = tl.load(thing + 13)
            ink = 0.25 * alpha * paint + (0.45 + 0.6 * paint) * bright * paint + 0.12 * bright
            green = tl.minimum(gain * ((1.0 - painted) * own_green + painted * ink), alpha) + green * (1.0 - alpha)
            paint = tl.load(thing + 14)
            ink = 0.25 * alpha * paint + (0.45 + 0.6 * paint) * bright * paint + 0.12 * bright
            blue = tl.minimum(gain * ((1.0 - painted) * own_blue + painted * ink), alpha) + blue * (1.0 - alpha)
            changed = changed * (1.0 - alpha) + tl.load(thing + 15) * alpha
            label = tl.where(alpha > 0.5, tl.load(thing + 18), label)

    # Light and colour.
    shade_x = x - tl.load(head + 25)
    shade_y = y - tl.load(head + 26)
    radius = tl.load(head + 27)
    lit = 1.0 - tl.load(head + 28) * tl.exp(-(shade_x * shade_x + shade_y * shade_y) / (radius * radius))
    lit = lit * (1.0 + tl.load(head + 23) * (x - 0.5) + tl.load(head + 24) * (y - 0.5)) * tl.load(head + 17)
    red = red * tl.load(head + 20) * lit
    green = green * tl.load(head + 21) * lit
    blue = blue * tl.load(head + 22) * lit
    gray = 0.3 * red + 0.59 * green + 0.11 * blue
    saturation = tl.load(head + 19)
    contrast = tl.load(head + 18)
    veil = tl.load(head + 32)
    red = (0.45 + contrast * (gray + saturation * (red - gray) - 0.45)) * (1.0 - veil) + tl.load(head + 29) * veil
    green = (0.45 + contrast * (gray + saturation * (green - gray) - 0.45)) * (1.0 - veil) + tl.load(head + 30) * veil
    blue = (0.45 + contrast * (gray + saturation * (blue - gray) - 0.45)) * (1.0 - veil) + tl.load(head + 31) * veil
    area = side * side
    place = out + image * 3 * area + pixel
    tl.store(place, tl.minimum(tl.maximum(red, 0.0), 1.0), mask=mask)
    tl.store(place + area, tl.minimum(tl.maximum(green, 0.0), 1.0), mask=mask)
    tl.store(place + 2 * area, tl.minimum(tl.maximum(blue, 0.0), 1.0), mask=mask)
    tl.store(changed_out + image * area + pixel, changed, mask=mask)
    tl.store(label_out + image * area + pixel, label.to(tl.int8), mask=mask)


@triton.jit
def _hashed(bits):
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def _finish(pixels, amounts, keys, out, area, BLOCK: tl.constexpr):
    """Grain, and pixels from 0 to 1 as bytes."""
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = pixel < area
    amount = tl.load(amounts + image)
    bits = pixel.to(tl.uint32) + tl.load(keys + image).to(tl.uint32)
    first = (_hashed(bits) >> 8).to(tl.float32) * 5.9604644775390625e-08
    second = (_hashed(bits + 77777777) >> 8).to(tl.float32) * 5.9604644775390625e-08
    bright = 2.0 * (first + second - 1.0)
    place = image * 3 * area + pixel
    for channel in tl.static_range(3):
        tint = first - 0.5 if channel == 0 else (second - 0.5 if channel == 1 else 0.5 - first)
        value = tl.load(pixels + place + channel * area, mask=mask, other=0.0) + amount * (bright + tint)
        value = tl.minimum(tl.maximum(tl.floor(value * 255.0 + 0.5), 0.0), 255.0)
        tl.store(out + place + channel * area, value.to(tl.uint8), mask=mask)


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
    _compose[grid](
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
    _finish[grid](pixels, amount.contiguous(), keys.contiguous(), out, area, BLOCK=1024, num_warps=4)
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
