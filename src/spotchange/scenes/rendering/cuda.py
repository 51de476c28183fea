"""The renderer's loops on CUDA: the same work items, on torch's current stream.

An image takes two kernels, because a GPU's threads march in step: where one follows mirrors, its neighbours on open
ground would wait. The first draws the ground and lists the pixels near objects, metal from the front of the list and
the others from its back; the second shares out this list, a thread for each sample of a pixel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import config, cuda, float32, int32

from spotchange.kernels.compile import cached_kernel
from spotchange.scene import MAX_OBJECTS
from spotchange.scenes import appearance
from spotchange.scenes.rendering.frame import Tables, fill_bounced, fill_clear, fill_indirect, prepare_scene
from spotchange.scenes.rendering.geometry import SLOT
from spotchange.scenes.rendering.pixel import (
    SAMPLES_AT_ONCE,
    agrees,
    glance,
    is_metallic,
    open_ground,
    pixel_sample,
    pixels_shown,
    taken_in,
    to_levels,
    version_of,
    view_at,
)

F = np.float32

config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # one scene is a fair request, if a small one

THREADS = 128
TILE_WIDTH, TILE_HEIGHT = 8, 16  # threads of a block cover a patch of the image, so that they meet the same objects
PIXELS_AT_ONCE = 1 << 24  # drawn by one pair of kernels: bounds the list of pixels near objects
WORKERS = 4096  # blocks that share out the list; more than any device runs at once
WARP = 32
PIXELS_A_WARP = WARP // SAMPLES_AT_ONCE
METAL_END, OTHER_END = 0, 1  # the two ends from which the list is filled


@cached_kernel(fastmath=True)
def _prepare(tables, items):
    index = cuda.grid(1)
    if index < items:
        prepare_scene(index, tables)


@cached_kernel(fastmath=True)
def _fill_clear(tables, items, samples):
    index = cuda.grid(1)
    if index < items:
        fill_clear(index, tables, samples)


@cached_kernel(fastmath=True)
def _fill_bounced(tables, items, rays):
    index = cuda.grid(1)
    if index < items:
        fill_bounced(index, tables, rays)


@cached_kernel(fastmath=True)
def _fill_indirect(tables, items, rays):
    index = cuda.grid(1)
    if index < items:
        fill_indirect(index, tables, rays)


@cached_kernel(fastmath=True)
def _draw_ground(tables, views, first, images, ids, listed, lengths):
    """Draw pixels that show ground alone; list the others as (pixel, mask of objects near it) in one number."""
    count, height, width = ids.shape[1], ids.shape[2], ids.shape[3]
    image = first + cuda.blockIdx.x
    s, p = image // count, image % count
    row = cuda.blockIdx.y * TILE_HEIGHT + cuda.threadIdx.y
    column = cuda.blockIdx.z * TILE_WIDTH + cuda.threadIdx.x
    view = view_at(views, p)
    mask, end, place = 0, METAL_END, 0
    # Places are shared out within the block first: one counter for all of the device would be a bottleneck.
    found = cuda.shared.array(2, int32)
    start = cuda.shared.array(2, int32)
    thread = cuda.threadIdx.y * TILE_WIDTH + cuda.threadIdx.x
    if thread < 2:
        found[thread] = 0
    cuda.syncthreads()
    if row < height and column < width:
        mask, k = glance(tables, s, view, row, column, width, height)
        objects = tables.objects[s, version_of(view)]
        ids[s, p, row, column] = int(objects[k, SLOT]) + 1 if k >= 0 else 0
        if mask == 0:
            r, g, b = open_ground(tables, s, view, row, column, width, height)
            images[s, p, 0, row, column] = int(r)
            images[s, p, 1, row, column] = int(g)
            images[s, p, 2, row, column] = int(b)
        else:
            end = METAL_END if is_metallic(objects, mask, k) else OTHER_END
            place = cuda.atomic.add(found, end, 1)
    cuda.syncthreads()
    if thread < 2:
        start[thread] = cuda.atomic.add(lengths, thread, found[thread])
    cuda.syncthreads()
    if mask != 0:
        pixel = (image * height + row) * width + column
        place += start[end]
        listed[place if end == METAL_END else listed.shape[0] - 1 - place] = (pixel << MAX_OBJECTS) | mask


@cached_kernel(fastmath=True)
def _draw_objects(tables, views, effort, images, listed, lengths):
    """Draw the listed pixels: neighbouring threads take the samples of one pixel and add them up together."""
    count, height, width = images.shape[1], images.shape[3], images.shape[4]
    colors = cuda.shared.array((WARP, 3), float32)
    thread = cuda.threadIdx.x
    sample, group = thread % SAMPLES_AT_ONCE, thread // SAMPLES_AT_ONCE
    metal, total_pixels = lengths[METAL_END], lengths[METAL_END] + lengths[OTHER_END]
    for start in range(cuda.blockIdx.x * PIXELS_A_WARP, total_pixels, cuda.gridDim.x * PIXELS_A_WARP):
        index = start + group
        going = index < total_pixels
        if not going:
            index = start
        entry = listed[index if index < metal else listed.shape[0] - 1 - (index - metal)]
        mask, pixel = entry & ((1 << MAX_OBJECTS) - 1), entry >> MAX_OBJECTS
        column, line = pixel % width, pixel // width
        row, image = line % height, line // height
        s, p = image // count, image % count
        view = view_at(views, p)
        total = (F(0.0), F(0.0), F(0.0), F(1e9), F(0.0))
        taken = 0
        for first in range(0, effort[0], SAMPLES_AT_ONCE):
            if going:
                r, g, b = pixel_sample(tables, s, view, row, column, width, height, mask, first + sample, effort)
                colors[thread, 0], colors[thread, 1], colors[thread, 2] = r, g, b
            cuda.syncthreads()
            if going:
                for other in range(group * SAMPLES_AT_ONCE, (group + 1) * SAMPLES_AT_ONCE):
                    total = taken_in(total, (colors[other, 0], colors[other, 1], colors[other, 2]))
                taken += SAMPLES_AT_ONCE
                going = not agrees(total)
            cuda.syncthreads()
        if taken > 0 and sample == 0:
            levels = to_levels((total[0], total[1], total[2]), tables.look[s, appearance.EXPOSURE] / F(taken))
            images[s, p, 0, row, column] = int(levels[0])
            images[s, p, 1, row, column] = int(levels[1])
            images[s, p, 2, row, column] = int(levels[2])


@cached_kernel(fastmath=True)
def _count(tables, views, size, enough, pixels):
    index = cuda.grid(1)
    k, image = index % MAX_OBJECTS, index // MAX_OBJECTS
    s, p = image // pixels.shape[1], image % pixels.shape[1]
    view = view_at(views, p)
    version = version_of(view)
    if s < pixels.shape[0] and k < tables.used[s, version]:
        slot = int(tables.objects[s, version, k, SLOT])
        pixels[s, p, slot] = pixels_shown(tables, s, view, k, size[0], size[1], enough)


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


def draw(tables: Tables, views: int, effort: tuple[int, ...], images: Any, ids: Any) -> None:
    """Fill uint8 images (S, views, 3, H, W) and ids (S, views, H, W)."""
    scenes, count, height, width = ids.shape
    at_once = max(1, PIXELS_AT_ONCE // (height * width))
    starts = range(0, scenes * count, at_once)
    listed = _view(_scratch(min(at_once, scenes * count) * height * width, "int64", images))
    lengths = _view(_scratch((len(starts), 2), "int32", images))
    images, ids, stream = _view(images), _view(ids), _stream()
    workers = min(WORKERS, -(-listed.size // PIXELS_A_WARP))
    for part, first in enumerate(starts):
        grid = _tiles(min(at_once, scenes * count - first), height, width)
        _draw_ground[(*grid, stream)](tables, views, first, images, ids, listed, lengths[part])
        _draw_objects[workers, WARP, stream](tables, views, effort, images, listed, lengths[part])


def count(tables: Tables, views: int, size: tuple[int, int], enough: int, pixels: Any) -> None:
    """Fill int32 pixels (S, views, MAX_OBJECTS) of zeros with how many of an image's pixels show each object."""
    _count[_blocks(math.prod(pixels.shape)), THREADS, _stream()](tables, views, size, enough, _view(pixels))


def _scratch(shape: Any, kind: str, like: Any) -> Any:
    """Zeros beside another tensor."""
    import torch

    return torch.zeros(shape, dtype=getattr(torch, kind), device=like.device)


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
