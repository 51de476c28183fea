"""The renderer's loops on the CPU: the shared work items, spread over Python threads.

Plain threads and compiled loops without the interpreter lock: unlike numba's own thread pools they survive a fork and
calls from several threads at once, and compile in half the time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from spotchange.kernels.compile import cached_loop
from spotchange.scenes.rendering.frame import Tables, fill_bounced, fill_clear, fill_indirect, prepare_scene
from spotchange.scenes.rendering.geometry import SLOT
from spotchange.scenes.rendering.pixel import draw_pixel, pixels_shown, version_of, view_at

CHUNKS_PER_THREAD = 8  # rows differ in cost, so threads take small shares in turn


@cached_loop
def _prepare(start, stop, tables):
    for index in range(start, stop):
        prepare_scene(index, tables)


@cached_loop
def _fill_clear(start, stop, tables, samples):
    for index in range(start, stop):
        fill_clear(index, tables, samples)


@cached_loop
def _fill_bounced(start, stop, tables, rays):
    for index in range(start, stop):
        fill_bounced(index, tables, rays)


@cached_loop
def _fill_indirect(start, stop, tables, rays):
    for index in range(start, stop):
        fill_indirect(index, tables, rays)


@cached_loop
def _draw(start, stop, tables, views, effort, images, ids):
    count, height, width = ids.shape[1], ids.shape[2], ids.shape[3]
    for line in range(start, stop):
        s, p, row = line // (count * height), line // height % count, line % height
        view = view_at(views, p)
        for column in range(width):
            (r, g, b), thing = draw_pixel(tables, s, view, row, column, width, height, effort)
            images[s, p, 0, row, column] = int(r)
            images[s, p, 1, row, column] = int(g)
            images[s, p, 2, row, column] = int(b)
            ids[s, p, row, column] = thing


@cached_loop
def _count(start, stop, tables, views, size, enough, pixels):
    count = pixels.shape[1]
    for image in range(start, stop):
        s, p = image // count, image % count
        view = view_at(views, p)
        version = version_of(view)
        for k in range(tables.used[s, version]):
            slot = int(tables.objects[s, version, k, SLOT])
            pixels[s, p, slot] = pixels_shown(tables, s, view, k, size[0], size[1], enough)


def as_arrays(tables: Tables) -> Tables:
    """Numpy arrays are what numba takes."""
    return tables


def prepare(tables: Tables) -> None:
    """Fill objects and lights."""
    _prepare(0, tables.used.size, tables)


def light(tables: Tables, samples: int, rays: int) -> None:
    """Fill the tables of bounced light."""
    _share_out(tables.clear.size, _fill_clear, tables, samples)
    _share_out(tables.bounced.size // 3, _fill_bounced, tables, rays)
    _share_out(tables.indirect.size // 3, _fill_indirect, tables, rays)


def draw(tables: Tables, views: int, effort: tuple[int, ...], images: Any, ids: Any) -> None:
    """Fill uint8 images (S, views, 3, H, W) and ids (S, views, H, W)."""
    scenes, count, height, _ = ids.shape
    _share_out(scenes * count * height, _draw, tables, views, effort, images, ids)


def count(tables: Tables, views: int, size: tuple[int, int], enough: int, pixels: Any) -> None:
    """Fill int32 pixels (S, views, MAX_OBJECTS) of zeros with how many of an image's pixels show each object."""
    scenes, images, _ = pixels.shape
    _share_out(scenes * images, _count, tables, views, size, enough, pixels)


def _share_out(items: int, loop: Callable[..., None], *arguments: Any) -> None:
    """Run loop(start, stop, ...) over all items in as many threads as this process may use cores."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chunks = min(items, threads * CHUNKS_PER_THREAD) if threads > 1 else 1
    edges = [items * chunk // chunks for chunk in range(chunks + 1)] if items else [0]
    if len(edges) <= 2:
        loop(0, items, *arguments)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(loop, start, stop, *arguments) for start, stop in pairwise(edges)]:
            done.result()
