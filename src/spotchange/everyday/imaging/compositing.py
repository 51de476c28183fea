"""From scenes to images: backgrounds, shadows and cut-outs laid over each other, light, blur, blocks and noise.

On the CPU a thing at a time is laid over the part of an image that it reaches. On a GPU `compositing_kernel.py` does
the same for a pixel at a time, which passes over memory once instead of some hundred times.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.everyday.imaging.nuisances import blurred, developed, grain_keys, noisy, rounded_in_blocks
from spotchange.everyday.library import BACKGROUND_SIDE, LEVELS, SIDE, Library
from spotchange.everyday.scenes import Scenes, Things

_FADED = 3.5  # times its own size from where on a contact shadow darkens by less than 1e-7
NOTHING = -1  # label of a pixel that shows the background


@dataclass(frozen=True, kw_only=True)
class ImageBatch:
    """Images of scenes and what is known about their pixels."""

    pixels: Tensor  # uint8 (scenes, 2, 3, side, side)
    changed: Tensor  # float (scenes, 2, side, side): how much of a pixel is a thing that changes
    label: Tensor  # int8 (scenes, 2, side, side): the layer that is seen there, -1 for the background


def compose(library: Library, scenes: Scenes, *, side: int) -> ImageBatch:
    """Both images of every scene, `side` pixels wide and high."""
    order = scenes.things.bottom.argsort(dim=2, stable=True)
    things = scenes.things.in_order(order)
    level = _levels(things, side)
    is_target = scenes.changing[:, None].expand(-1, 2, -1).gather(2, order).float()
    on_gpu = library.device.type == "cuda"
    if on_gpu:
        from spotchange.everyday.imaging.compositing_cuda import compose_in_one_pass, finish_in_one_pass

        pixels, changed, label = compose_in_one_pass(library, scenes, things, order, level, is_target, side=side)
    else:
        pixels, changed, label = compose_step_by_step(library, scenes, things, order, level, is_target, side=side)
    pixels = blurred(pixels.flatten(0, 1), scenes.looks.blur.flatten())
    pixels = rounded_in_blocks(pixels, scenes.looks.coarse.flatten())
    amount, keys = scenes.looks.noise.flatten(), grain_keys(scenes.numbers, scenes.seed)
    finished = finish_in_one_pass(pixels, amount, keys) if on_gpu else noisy(pixels, amount, keys)
    return ImageBatch(pixels=finished.unflatten(0, (-1, 2)), changed=changed, label=label)


def compose_step_by_step(
    library: Library, scenes: Scenes, things: Things, order: Tensor, level: Tensor, is_target: Tensor, *, side: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Developed pixels (scenes, 2, 3, side, side), `changed` and `label`, a thing at a time, image by image."""
    place_x, place_y = _places(scenes, side)
    red, green, blue = _background(library, scenes, place_x, place_y)
    changed = torch.zeros_like(red)
    label = torch.full_like(red, NOTHING)
    offset = library.offsets[things.view].gather(3, level[..., None])[..., 0]
    soft = library.offsets[things.view][..., 2]
    reach = _reach(scenes, things)
    # A thing is laid only where it or its shadow can be seen: most of an image never meets most of its things.
    for scene, image, layer in things.on.nonzero().tolist():
        at = (slice(scene, scene + 1), slice(image, image + 1))
        rows, columns = _seen_from(place_x[scene, image], place_y[scene, image], reach[scene, image, layer])
        cut = (*at, rows, columns)
        canvas = tuple(each[cut] for each in (red, green, blue, changed, label))
        where = (place_x[cut], place_y[cut], library.atlas)
        chosen = tuple(each[at] for each in _of_layer(things, layer))
        tile = (
            offset[*at, layer, None, None],
            _column(SIDE >> level[*at, layer]),
            soft[*at, layer, None, None],
        )
        marks = (_column(is_target[*at, layer]), _column(order[*at, layer]))
        lamp = scenes.light[scene : scene + 1]
        light = (*(_column(lamp[:, each, None]) for each in range(3)), _column(scenes.contact[scene : scene + 1, None]))
        for whole, part in zip(
            (red, green, blue, changed, label), _lay(canvas, where, chosen, tile, marks, light), strict=True
        ):
            whole[cut] = part
    pixels = developed(torch.stack([red, green, blue], dim=2), place_x, place_y, *_look_columns(scenes))
    return pixels, changed, label.to(torch.int8)


def _reach(scenes: Scenes, things: Things) -> Tensor:
    """(scenes, 2, layers, 4): left, top, right, bottom in the scene of all that a thing and its shadows touch."""
    half = torch.hypot(things.width, things.height) / 2
    shear, long = scenes.light[:, 0, None, None], scenes.light[:, 1, None, None] * things.height
    across = torch.maximum(torch.maximum(half, _FADED / 2 * things.width), things.width / 2 + (shear * long).abs())
    spot = _FADED * (0.07 * things.height + 0.012)
    top = torch.minimum(things.y - half, things.bottom - torch.maximum(spot, long))
    bottom = torch.maximum(things.y + half, things.bottom + torch.maximum(spot, -long))
    return torch.stack([things.x - across, top, things.x + across, bottom], dim=-1)


def _seen_from(x: Tensor, y: Tensor, reach: Tensor) -> tuple[slice, slice]:
    """Rows and columns of an image whose pixels look at places of the scene within `reach`."""
    left, top, right, bottom = reach.tolist()
    inside = (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
    found = []
    for axis in (1, 0):
        places = inside.any(dim=axis).nonzero()
        found.append(slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0))
    return found[0], found[1]


def _places(scenes: Scenes, side: int) -> tuple[Tensor, Tensor]:
    """Where in the scene every pixel looks: two of (scenes, 2, side, side)."""
    middle = (torch.arange(side, device=scenes.kind.device) + 0.5) / side
    x, y = middle[None, None, None, :], middle[None, None, :, None]
    a, b, move_x, c, d, move_y, tilt_x, tilt_y = (each[..., None, None] for each in scenes.looks.camera.unbind(2))
    far = 1 + tilt_x * (x - 0.5) + tilt_y * (y - 0.5)
    return (a * x + b * y + move_x) / far, (c * x + d * y + move_y) / far


def _background(library: Library, scenes: Scenes, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    left, top, width, height = (each[:, None, None, None] for each in scenes.window.unbind(1))
    x = torch.where(scenes.mirrored_background[:, None, None, None], 1 - x, x)
    # Beyond its edge a background goes on as in a mirror.
    across, down = _folded(left + x * width), _folded(top + y * height)
    offset = (scenes.background * BACKGROUND_SIDE**2)[:, None, None, None]
    full = torch.full_like(scenes.window[:, :1, None, None], BACKGROUND_SIDE)
    red, green, blue, _ = _looked_up(library.backgrounds.view(-1), offset, full, across, down)
    return red, green, blue


def _folded(place: Tensor) -> Tensor:
    place = place.abs() % 2
    return torch.where(place > 1, 2 - place, place)


def _looked_up(atlas: Tensor, offset: Tensor, side: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """Four channels, 0 to 1, of squares at places `u`, `v` from 0 to 1: bilinear, edges repeated."""
    last = side - 1
    x, y = (u * side - 0.5).clamp(min=0).minimum(last), (v * side - 0.5).clamp(min=0).minimum(last)
    left, top = x.floor(), y.floor()
    part_x, part_y = x - left, y - top
    right, low = (left + 1).minimum(last), (top + 1).minimum(last)
    row, next_row = offset + (top * side).long(), offset + (low * side).long()
    corners = (
        (atlas[row + left.long()], (1 - part_x) * (1 - part_y)),
        (atlas[row + right.long()], part_x * (1 - part_y)),
        (atlas[next_row + left.long()], (1 - part_x) * part_y),
        (atlas[next_row + right.long()], part_x * part_y),
    )
    channels: list[Tensor] = []
    for shift in (0, 8, 16, 24):
        parts = [((packed >> shift) & 255).float() * weight for packed, weight in corners]
        channels.append((parts[0] + parts[1] + parts[2] + parts[3]) / 255)
    return tuple(channels)


def _levels(things: Things, side: int) -> Tensor:
    """How small a copy of each cut-out is sharp enough: int64 (scenes, 2, layers)."""
    pixels = torch.maximum(things.height, things.width).clamp(min=1e-3) * side
    return torch.log2(SIDE / pixels).floor().clamp(0, LEVELS - 1).long()


def _column(values: Tensor) -> Tensor:
    return values.float()[..., None, None]


def _of_layer(things: Things, layer: int) -> tuple[Tensor, ...]:
    """The numbers that place one layer, each (scenes, 2, 1, 1)."""
    names = ("on", "x", "y", "width", "height", "angle", "flipped", "cut_low", "cut_high", "painted", "gain")
    columns = [_column(getattr(things, name)[..., layer]) for name in names]
    return (*columns, *(_column(things.paint[..., layer, channel]) for channel in range(3)))


def _lay(
    canvas: tuple[Tensor, ...],
    where: tuple[Tensor, Tensor, Tensor],
    thing: tuple[Tensor, ...],
    tile: tuple[Tensor, Tensor, Tensor],
    marks: tuple[Tensor, Tensor],
    light: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """One more thing, with its shadows, over (part of) images."""
    red, green, blue, changed, label = canvas
    x, y, atlas = where
    on, mid_x, mid_y, width, height, angle, flipped, cut_low, cut_high, painted, gain, *paint = thing
    offset, side, soft = tile
    target, number = marks
    shear, long, dark, contact = light

    # Shadows: a soft spot where it stands, and its outline laid on the ground by a lamp.
    stands = mid_y + height * 0.5
    spot = ((x - mid_x) / (0.5 * width)) ** 2 + ((y - stands) / (0.07 * height + 0.012)) ** 2
    shadow = contact * torch.exp(-1.3 * spot)
    up = (stands - y) / (long * height)
    across = (x - mid_x - shear * (stands - y)) / width + 0.5
    low_side = torch.full_like(side, float(SIDE >> 2))
    *_, outline = _looked_up(atlas, soft, low_side, across, 1 - up)
    lies = (up > 0) & (up < 1) & (across > 0) & (across < 1) & (cut_high - cut_low > 0.9) & (angle.abs() < 0.5)
    shadow = on * (1 - (1 - shadow) * (1 - dark * outline * lies * (1 - 0.6 * up)))
    red, green, blue = red * (1 - shadow), green * (1 - shadow), blue * (1 - shadow)

    # The cut-out itself.
    cos, sin = torch.cos(angle), torch.sin(angle)
    from_x, from_y = x - mid_x, y - mid_y
    u = (cos * from_x + sin * from_y) / width
    v = (cos * from_y - sin * from_x) / height + 0.5
    u = torch.where(flipped > 0.5, -u, u) + 0.5
    own_red, own_green, own_blue, alpha = _looked_up(atlas, offset, side, u, v)
    inside = (u > cut_low) & (u < cut_high) & (v > 0) & (v < 1)
    shown = on * inside.float()
    alpha = alpha * shown
    bright = 0.3 * own_red + 0.59 * own_green + 0.11 * own_blue
    ink = [0.25 * alpha * each + (0.45 + 0.6 * each) * bright * each + 0.12 * bright for each in paint]
    own = [
        (gain * shown * (1 - painted) * each + gain * painted * shown * tone).minimum(alpha)
        for each, tone in zip((own_red, own_green, own_blue), ink, strict=True)
    ]
    red, green, blue = (own[i] + each * (1 - alpha) for i, each in enumerate((red, green, blue)))
    changed = changed * (1 - alpha) + target * alpha
    label = torch.where(alpha > 0.5, number, label)
    return red, green, blue, changed, label


def _look_columns(scenes: Scenes) -> tuple[Tensor, ...]:
    looks = scenes.looks
    return (
        looks.gain[..., None, None, None],
        looks.contrast[..., None, None, None],
        looks.saturation[..., None, None, None],
        looks.balance[..., None, None],
        looks.slope[..., None, None],
        looks.shade[..., None, None],
        looks.veil[..., None, None],
    )


def pooled(values: Tensor, grid: tuple[int, int]) -> Tensor:
    """(scenes, 2, side, side) to the mean of every patch: (scenes, 2, rows, columns)."""
    return F.adaptive_avg_pool2d(values, grid)
