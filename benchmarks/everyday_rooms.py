"""Rooms, table tops and grounds drawn from nothing but noise and calm parts of photos; odd shapes cut from photos."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDE = 288
_TONES = (
    (200, 190, 175),
    (225, 222, 215),
    (180, 185, 190),
    (150, 120, 90),
    (120, 85, 55),
    (95, 65, 45),
    (60, 50, 45),
    (205, 180, 140),
    (170, 60, 50),
    (70, 90, 120),
    (100, 120, 90),
    (40, 40, 45),
    (235, 230, 220),
    (160, 160, 155),
    (190, 150, 110),
    (90, 100, 105),
    (214, 205, 190),
    (130, 140, 150),
)
Chance = np.random.Generator


def _smooth(chance: Chance, height: int, width: int, grain: float) -> np.ndarray:
    coarse = chance.standard_normal((max(2, int(height / grain) + 2), max(2, int(width / grain) + 2)))
    return np.asarray(Image.fromarray(coarse.astype(np.float32)).resize((width, height), Image.Resampling.BICUBIC))


def _tone(chance: Chance) -> np.ndarray:
    return np.array(_TONES[chance.integers(len(_TONES))], np.float32) * chance.uniform(0.75, 1.15)


def _texture(chance: Chance, height: int, width: int, calm: list[Image.Image]) -> np.ndarray:
    """Plain, wood, speckled, tiled, striped, or a piece of a photo."""
    kind = chance.integers(0, 6)
    image = np.ones((height, width, 3), np.float32) * (_tone(chance) + chance.normal(0, 6, 3))
    if kind == 1:
        lines = _smooth(chance, height // 24 + 2, width, 3)
        grain = np.asarray(Image.fromarray(lines).resize((width, height), Image.Resampling.BICUBIC))
        image += (grain * chance.uniform(5, 16))[..., None]
        if chance.random() < 0.6:
            image[:: int(chance.integers(30, 80))] *= 0.72
    elif kind == 2:
        fine, wide = _smooth(chance, height, width, 1.5), _smooth(chance, height, width, 9)
        image += (fine * chance.uniform(3, 14) + wide * chance.uniform(2, 10))[..., None]
    elif kind == 3:
        step = int(chance.integers(24, 70))
        image += _smooth(chance, height, width, 4)[..., None] * 4
        image[::step] *= 0.8
        image[:, ::step] *= 0.8
        image[1::step] *= 0.85
    elif kind == 4:
        stripes = np.sin(np.arange(width) * 2 * np.pi / chance.integers(4, 16)) * chance.uniform(2, 9)
        image += stripes[None, :, None] + (_smooth(chance, height, width, 1) * chance.uniform(2, 8))[..., None]
    elif kind == 5 and calm:
        piece = calm[chance.integers(len(calm))].resize((width, height), Image.Resampling.BICUBIC)
        image = np.asarray(piece, np.float32)
    return image


def _receding(image: np.ndarray, amount: float) -> np.ndarray:
    """Seen from in front: the far edge shows more of it."""
    height, width, _ = image.shape
    inset = width * amount
    corners = (((0, 0), (inset, 0)), ((width, 0), (width - inset, 0)), ((width, height),) * 2, ((0, height),) * 2)
    rows, targets = [], []
    for (to_x, to_y), (x, y) in corners:
        rows += [[to_x, to_y, 1, 0, 0, 0, -x * to_x, -x * to_y], [0, 0, 0, to_x, to_y, 1, -y * to_x, -y * to_y]]
        targets += [x, y]
    numbers = np.linalg.solve(np.array(rows, float), np.array(targets, float))
    image = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))
    size = (width, height)
    turned = image.transform(size, Image.Transform.PERSPECTIVE, tuple(numbers), Image.Resampling.BICUBIC)
    return np.asarray(turned, np.float32)


def draw_room(chance: Chance, calm: list[Image.Image]) -> Image.Image:
    """A ground from above, or a wall over a floor or table, lit from one side."""
    image = np.zeros((SIDE, SIDE, 3), np.float32)
    if chance.random() < 0.4:
        image = _receding(_texture(chance, SIDE, SIDE, calm), chance.uniform(0, 0.3))
    else:
        edge = int(SIDE * chance.uniform(0.2, 0.62))
        plain = chance.random() < 0.6
        image[:edge] = _tone(chance) if plain else _texture(chance, SIDE, SIDE, calm)[:edge]
        image[edge:] = _receding(_texture(chance, SIDE - edge, SIDE, calm), chance.uniform(0.1, 0.38))
        if chance.random() < 0.4:
            image[max(0, edge - int(chance.integers(3, 10))) : edge] = _tone(chance)
        if chance.random() < 0.3 and calm:
            left, top = int(chance.uniform(0, 0.6) * SIDE), int(chance.uniform(0, 0.3) * edge)
            size = (int(chance.uniform(0.15, 0.4) * SIDE), max(2, int(chance.uniform(0.3, 0.6) * edge)))
            hung = np.asarray(calm[chance.integers(len(calm))].resize(size), np.float32)
            room = image[top : top + size[1], left : left + size[0]]
            room[:] = hung[: room.shape[0], : room.shape[1]]
    down, across = np.mgrid[0:SIDE, 0:SIDE] / SIDE - 0.5
    angle = chance.uniform(0, 2 * np.pi)
    image *= (1 + chance.uniform(0, 0.45) * (across * np.cos(angle) + down * np.sin(angle)))[..., None]
    image *= np.exp(_smooth(chance, SIDE, SIDE, 110) * chance.uniform(0, 0.12))[..., None]
    room = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8))
    return room.filter(ImageFilter.GaussianBlur(chance.uniform(0, 0.7)))


def patch_shape(photo: Image.Image, chance: Chance) -> Image.Image:
    """A piece of a photo, cut out along a random outline."""
    width, height = (int(chance.uniform(0.2, 0.45) * side) for side in photo.size)
    x, y = int(chance.integers(0, photo.width - width)), int(chance.integers(0, photo.height - height))
    piece = photo.crop((x, y, x + width, y + height)).convert("RGBA")
    turn = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    radius = 1 + sum(chance.normal(0, 0.28 / k) * np.cos(k * turn + chance.uniform(0, 6.3)) for k in range(1, 6))
    if chance.random() < 0.35:  # angular things
        corners = int(chance.integers(3, 7))
        step = 2 * np.pi / corners
        radius = np.cos(np.pi / corners) / np.cos(turn - np.floor(turn / step) * step - np.pi / corners)
    outline = np.stack([np.cos(turn), np.sin(turn)], 1) * np.clip(radius, 0.25, None)[:, None]
    outline = (outline - outline.min(0)) / (outline.max(0) - outline.min(0)) * 255
    mask = Image.new("L", (256, 256))
    ImageDraw.Draw(mask).polygon([tuple(map(float, point)) for point in outline], fill=255)
    piece.putalpha(mask.resize(piece.size, Image.Resampling.LANCZOS).filter(ImageFilter.GaussianBlur(0.6)))
    return piece
