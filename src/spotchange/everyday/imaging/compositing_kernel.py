"""The compositor for CUDA in Triton: every pixel is looked at once, with all things over it, and written once.

It computes what `compositing.py` computes step by step on the CPU; the tests hold them together. Which number stands
where in `header` and `layers` is decided in `compositing_cuda.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl


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
def _place(head, pixel, side):
    """Where in the scene a pixel looks."""
    px = ((pixel % side).to(tl.float32) + 0.5) / side
    py = ((pixel // side).to(tl.float32) + 0.5) / side
    far = 1.0 + tl.load(head + 6) * (px - 0.5) + tl.load(head + 7) * (py - 0.5)
    x = (tl.load(head + 0) * px + tl.load(head + 1) * py + tl.load(head + 2)) / far
    y = (tl.load(head + 3) * px + tl.load(head + 4) * py + tl.load(head + 5)) / far
    return x, y


@triton.jit
def _in_shadow(
    atlas, soft, x, y, mid_x, mid_y, width, height, whole, shear, long, dark, contact, mask, SOFT: tl.constexpr
):
    """What two shadows leave of the light: a soft spot where a thing stands, and its outline laid on the ground."""
    stands = mid_y + height * 0.5
    spot_x = (x - mid_x) / (0.5 * width)
    spot_y = (y - stands) / (0.07 * height + 0.012)
    shadow = contact * tl.exp(-1.3 * (spot_x * spot_x + spot_y * spot_y))
    up = (stands - y) / (long * height)
    over = (x - mid_x - shear * (stands - y)) / width + 0.5
    lies = (up * whole > 0.0) & (up < 1.0) & (over > 0.0) & (over < 1.0) & mask
    soft_side = tl.full(x.shape, SOFT, tl.float32)
    _, _, _, outline = _looked_up(atlas, soft, soft_side, over, 1.0 - up, lies)
    cast = tl.where(lies, dark * outline * (1.0 - 0.6 * up), 0.0)
    return (1.0 - shadow) * (1.0 - cast)


@triton.jit
def _painted(own, paint, behind, bright, alpha, painted, gain):
    """One colour of a cut-out, in part painted over, before what lies behind it."""
    ink = 0.25 * alpha * paint + (0.45 + 0.6 * paint) * bright * paint + 0.12 * bright
    return tl.minimum(gain * ((1.0 - painted) * own + painted * ink), alpha) + behind * (1.0 - alpha)


@triton.jit
def _developed(head, red, green, blue, x, y):
    """Light and colour of the whole image."""
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
    return red, green, blue


@triton.jit
def compose_kernel(
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
    x, y = _place(head, pixel, side)

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
            # 0 for what is cut or fallen: it casts no outline.
            whole_thing = tl.load(thing + 16)
            soft = tl.load(softs + image * LAYERS + layer)
            lit = _in_shadow(
                atlas, soft, x, y, mid_x, mid_y, width, height, whole_thing, shear, long, dark, contact, mask, SOFT
            )
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
            red = _painted(own_red, tl.load(thing + 12), red, bright, alpha, painted, gain)
            green = _painted(own_green, tl.load(thing + 13), green, bright, alpha, painted, gain)
            blue = _painted(own_blue, tl.load(thing + 14), blue, bright, alpha, painted, gain)
            changed = changed * (1.0 - alpha) + tl.load(thing + 15) * alpha
            label = tl.where(alpha > 0.5, tl.load(thing + 18), label)

    red, green, blue = _developed(head, red, green, blue, x, y)
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
def finish_kernel(pixels, amounts, keys, out, area, BLOCK: tl.constexpr):
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
