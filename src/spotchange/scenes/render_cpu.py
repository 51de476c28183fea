"""The renderer's loops on the CPU: the shared work items, spread over the cores."""

from __future__ import annotations

from typing import Any

import numba

from .compile import cached_loop
from .frame import draw_pixel, fill_bounced, fill_direct, fill_indirect, object_at, picture_at, prepare_scene


@cached_loop
def _prepare(tables, items):
    for index in numba.prange(items):
        prepare_scene(index, tables)


@cached_loop
def _light(tables, direct_cells, samples, bounced_cells, object_cells, rays):
    for index in numba.prange(direct_cells):
        fill_direct(index, tables, samples)
    for index in numba.prange(bounced_cells):
        fill_bounced(index, tables, rays)
    for index in numba.prange(object_cells):
        fill_indirect(index, tables, rays)


@cached_loop
def _draw(tables, pictures, samples, bounces, rays, images):
    count, height, width = images.shape[1], images.shape[3], images.shape[4]
    for line in numba.prange(images.shape[0] * count * height):
        s, p, row = line // (count * height), line // height % count, line % height
        picture = picture_at(pictures, p)
        for column in range(width):
            r, g, b = draw_pixel(tables, s, picture, row, column, width, height, samples, bounces, rays)
            images[s, p, 0, row, column] = int(r)
            images[s, p, 1, row, column] = int(g)
            images[s, p, 2, row, column] = int(b)


@cached_loop
def _identify(tables, pictures, ids):
    count, height, width = ids.shape[1], ids.shape[2], ids.shape[3]
    for line in numba.prange(ids.shape[0] * count * height):
        s, p, row = line // (count * height), line // height % count, line % height
        for column in range(width):
            ids[s, p, row, column] = object_at(tables, s, picture_at(pictures, p), row, column, width, height)


@cached_loop
def _count(tables, pictures, width, height, pixels):
    count = pixels.shape[1]
    for image in numba.prange(pixels.shape[0] * count):
        s, p = image // count, image % count
        for row in range(height):
            for column in range(width):
                thing = object_at(tables, s, picture_at(pictures, p), row, column, width, height)
                if thing > 0:
                    pixels[s, p, thing - 1] += 1


def as_arrays(tables: Any) -> Any:
    """Numpy arrays are what numba takes."""
    return tables


def prepare(tables: Any) -> None:
    """Fill objects and lights."""
    _prepare(tables, tables.used.size)


def light(tables: Any, samples: int, rays: int) -> None:
    """Fill the tables of bounced light."""
    _light(tables, tables.direct.size // 3, samples, tables.bounced.size // 3, tables.indirect.size // 3, rays)


def draw(tables: Any, pictures: int, samples: int, bounces: int, rays: int, images: Any) -> None:
    """Fill uint8 images (S, pictures, 3, H, W)."""
    _draw(tables, pictures, samples, bounces, rays, images)


def identify(tables: Any, pictures: int, ids: Any) -> None:
    """Fill uint8 ids (S, pictures, H, W)."""
    _identify(tables, pictures, ids)


def count(tables: Any, pictures: int, width: int, height: int, pixels: Any) -> None:
    """Add the pixels every object shows to int32 pixels (S, pictures, MAX_OBJECTS)."""
    _count(tables, pictures, width, height, pixels)
