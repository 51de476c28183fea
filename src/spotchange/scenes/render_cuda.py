"""The renderer's loops on CUDA: the same work items, one thread each, on torch's current stream."""

from __future__ import annotations

from typing import Any

from numba import config, cuda

from .frame import Tables, draw_pixel, fill_bounced, fill_clear, fill_indirect, object_at, picture_at, prepare_scene

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # one scene is a fair request, if a small one

THREADS = 128
TILE_WIDTH, TILE_HEIGHT = 8, 16  # threads of a block cover a patch of the picture, so that they meet the same objects


@cuda.jit(fastmath=True)
def _prepare(tables, items):
    index = cuda.grid(1)
    if index < items:
        prepare_scene(index, tables)


@cuda.jit(fastmath=True)
def _fill_clear(tables, items, samples):
    index = cuda.grid(1)
    if index < items:
        fill_clear(index, tables, samples)


@cuda.jit(fastmath=True)
def _fill_bounced(tables, items, rays):
    index = cuda.grid(1)
    if index < items:
        fill_bounced(index, tables, rays)


@cuda.jit(fastmath=True)
def _fill_indirect(tables, items, rays):
    index = cuda.grid(1)
    if index < items:
        fill_indirect(index, tables, rays)


@cuda.jit(fastmath=True)
def _draw(tables, pictures, effort, images):
    count, height, width = images.shape[1], images.shape[3], images.shape[4]
    s, p = cuda.blockIdx.x // count, cuda.blockIdx.x % count
    row = cuda.blockIdx.y * TILE_HEIGHT + cuda.threadIdx.y
    column = cuda.blockIdx.z * TILE_WIDTH + cuda.threadIdx.x
    picture = picture_at(pictures, p)
    if row < height and column < width:
        r, g, b = draw_pixel(tables, s, picture, row, column, width, height, effort)
        images[s, p, 0, row, column] = int(r)
        images[s, p, 1, row, column] = int(g)
        images[s, p, 2, row, column] = int(b)


@cuda.jit(fastmath=True)
def _identify(tables, pictures, ids):
    count, height, width = ids.shape[1], ids.shape[2], ids.shape[3]
    s, p = cuda.blockIdx.x // count, cuda.blockIdx.x % count
    row = cuda.blockIdx.y * TILE_HEIGHT + cuda.threadIdx.y
    column = cuda.blockIdx.z * TILE_WIDTH + cuda.threadIdx.x
    if row < height and column < width:
        ids[s, p, row, column] = object_at(tables, s, picture_at(pictures, p), row, column, width, height)


@cuda.jit(fastmath=True)
def _count(tables, pictures, width, height, pixels):
    count = pixels.shape[1]
    s, p = cuda.blockIdx.x // count, cuda.blockIdx.x % count
    row = cuda.blockIdx.y * TILE_HEIGHT + cuda.threadIdx.y
    column = cuda.blockIdx.z * TILE_WIDTH + cuda.threadIdx.x
    if row < height and column < width:
        thing = object_at(tables, s, picture_at(pictures, p), row, column, width, height)
        if thing > 0:
            cuda.atomic.add(pixels, (s, p, thing - 1), 1)


def as_arrays(tables: Tables) -> Tables:
    """The same memory as numba's arrays."""
    return Tables(*map(_view, tables))


def prepare(tables: Tables) -> None:
    """Fill objects and lights."""
    items = tables.used.size
    _prepare[_blocks(items), THREADS, _stream()](tables, items)


def light(tables: Tables, samples: int, rays: int) -> None:
    """Fill the tables of bounced light."""
    stream = _stream()
    for kernel, items, effort in (
        (_fill_clear, tables.clear.size, samples),
        (_fill_bounced, tables.bounced.size // 3, rays),
        (_fill_indirect, tables.indirect.size // 3, rays),
    ):
        kernel[_blocks(items), THREADS, stream](tables, items, effort)


def draw(tables: Tables, pictures: int, effort: tuple[int, ...], images: Any) -> None:
    """Fill uint8 images (S, pictures, 3, H, W)."""
    scenes, count, _, height, width = images.shape
    _draw[(*_tiles(scenes * count, height, width), _stream())](tables, pictures, effort, _view(images))


def identify(tables: Tables, pictures: int, ids: Any) -> None:
    """Fill uint8 ids (S, pictures, H, W)."""
    scenes, count, height, width = ids.shape
    _identify[(*_tiles(scenes * count, height, width), _stream())](tables, pictures, _view(ids))


def count(tables: Tables, pictures: int, width: int, height: int, pixels: Any) -> None:
    """Add the pixels every object shows to int32 pixels (S, pictures, MAX_OBJECTS)."""
    scenes, images, _ = pixels.shape
    _count[(*_tiles(scenes * images, height, width), _stream())](tables, pictures, width, height, _view(pixels))


def _view(tensor: Any) -> Any:
    return cuda.as_cuda_array(tensor, sync=False)


def _stream() -> Any:
    import torch

    return cuda.external_stream(torch.cuda.current_stream().cuda_stream) if torch.cuda.is_available() else 0


def _blocks(items: int) -> int:
    return (items + THREADS - 1) // THREADS


def _tiles(images: int, height: int, width: int) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Grid and block; images go along x because only that axis may be longer than 65,535."""
    down, across = -(-height // TILE_HEIGHT), -(-width // TILE_WIDTH)
    return (images, down, across), (TILE_WIDTH, TILE_HEIGHT)
