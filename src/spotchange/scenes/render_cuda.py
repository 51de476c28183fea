"""The renderer's loops on CUDA: the same work items, one thread each, on torch's current stream."""

from __future__ import annotations

from typing import Any

from numba import cuda

from .frame import Tables, draw_pixel, fill_bounced, fill_direct, fill_indirect, object_at, prepare_scene

THREADS = 128
TILE = (8, 16)  # threads of a block cover a patch of the picture, so that they meet the same objects


@cuda.jit(fastmath=True)
def _prepare(tables, items):
    index = cuda.grid(1)
    if index < items:
        prepare_scene(index, tables)


@cuda.jit(fastmath=True)
def _fill_direct(tables, items, samples):
    index = cuda.grid(1)
    if index < items:
        fill_direct(index, tables, samples)


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
def _draw(tables, pictures, samples, bounces, images):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    count, height, width = images.shape[1], images.shape[3], images.shape[4]
    s, p = cuda.blockIdx.z // count, cuda.blockIdx.z % count
    if row < height and column < width:
        r, g, b = draw_pixel(tables, s, pictures[p], row, column, width, height, samples, bounces)
        images[s, p, 0, row, column] = int(r)
        images[s, p, 1, row, column] = int(g)
        images[s, p, 2, row, column] = int(b)


@cuda.jit(fastmath=True)
def _identify(tables, pictures, ids):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    count, height, width = ids.shape[1], ids.shape[2], ids.shape[3]
    s, p = cuda.blockIdx.z // count, cuda.blockIdx.z % count
    if row < height and column < width:
        ids[s, p, row, column] = object_at(tables, s, pictures[p], row, column, width, height)


@cuda.jit(fastmath=True)
def _count(tables, pictures, width, height, pixels):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    count = pixels.shape[1]
    s, p = cuda.blockIdx.z // count, cuda.blockIdx.z % count
    if row < height and column < width:
        thing = object_at(tables, s, pictures[p], row, column, width, height)
        if thing > 0:
            cuda.atomic.add(pixels, (s, p, thing - 1), 1)


def _stream() -> Any:
    import torch

    return cuda.external_stream(torch.cuda.current_stream().cuda_stream) if torch.cuda.is_available() else 0


def _view(tables: Tables) -> Tables:
    return Tables(*(cuda.as_cuda_array(array, sync=False) for array in tables))


def _blocks(items: int) -> int:
    return (items + THREADS - 1) // THREADS


def _grid(height: int, width: int, pictures: int) -> tuple[int, int, int]:
    return (width + TILE[0] - 1) // TILE[0], (height + TILE[1] - 1) // TILE[1], pictures


def prepare(tables: Tables) -> None:
    """Fill objects and lights."""
    items = tables.used.numel()
    _prepare[_blocks(items), THREADS, _stream()](_view(tables), items)


def light(tables: Tables, samples: int, rays: int) -> None:
    """Fill the tables of bounced light."""
    stream, view = _stream(), _view(tables)
    for kernel, table, effort in (
        (_fill_direct, tables.direct, samples),
        (_fill_bounced, tables.bounced, rays),
        (_fill_indirect, tables.indirect, rays),
    ):
        items = table.numel() // 3
        kernel[_blocks(items), THREADS, stream](view, items, effort)


def draw(tables: Tables, pictures: Any, samples: int, bounces: int, images: Any) -> None:
    """Fill uint8 images (S, pictures, 3, H, W)."""
    scenes, count, _, height, width = images.shape
    grid = _grid(height, width, scenes * count)
    _draw[grid, TILE, _stream()](
        _view(tables), cuda.as_cuda_array(pictures), samples, bounces, cuda.as_cuda_array(images)
    )


def identify(tables: Tables, pictures: Any, ids: Any) -> None:
    """Fill uint8 ids (S, pictures, H, W)."""
    scenes, count, height, width = ids.shape
    grid = _grid(height, width, scenes * count)
    _identify[grid, TILE, _stream()](_view(tables), cuda.as_cuda_array(pictures), cuda.as_cuda_array(ids))


def count(tables: Tables, pictures: Any, width: int, height: int, pixels: Any) -> None:
    """Add the pixels every object shows to int32 pixels (S, pictures, MAX_OBJECTS)."""
    scenes, images, _ = pixels.shape
    grid = _grid(height, width, scenes * images)
    _count[grid, TILE, _stream()](
        _view(tables), cuda.as_cuda_array(pictures), width, height, cuda.as_cuda_array(pixels)
    )
