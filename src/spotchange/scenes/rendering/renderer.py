"""Images of scenes: a ray tracer in the look of CLEVR, on the CPU with numpy or on CUDA with torch.

The image of a scene does not depend on the batch it is drawn in: every random number is a function of scene id,
image, pixel and sample. See docs/decisions/0001-renderer.md for how the light is computed and how close it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spotchange.errors import ConfigError
from spotchange.scene import AFTER, BEFORE, MAX_OBJECTS, SAME, SceneBatch

VIEWS = (BEFORE, AFTER, SAME)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How much work an image gets."""

    samples: int  # a pixel, a power of two from four on; four that agree end a pixel early
    bounces: int  # from metal to metal
    broad_rays: int  # a sample into metal's broad lobe; samples x broad_rays at most 64
    shadow_cells: int  # along a side of the ground's grid of shadows
    shadow_samples: int  # a light and cell, 4, 16 or 64; four that agree are enough
    bounced_cells: int
    rays: int  # gathered for an entry of indirect light

    def drawing(self) -> tuple[int, int, int]:
        """What `pixels.draw_pixel` takes."""
        return self.samples, self.bounces, self.broad_rays


QUALITIES = {
    "fast": Quality(samples=4, bounces=2, broad_rays=4, shadow_cells=96, shadow_samples=4, bounced_cells=32, rays=64),
    "faithful": Quality(
        samples=8, bounces=3, broad_rays=4, shadow_cells=160, shadow_samples=16, bounced_cells=48, rays=64
    ),
}


@dataclass(frozen=True, kw_only=True)
class RenderedImages:
    """Drawn images: numpy arrays from the CPU, torch tensors on the device from CUDA."""

    images: Any  # uint8 (S, views, 3, H, W)
    ids: Any  # uint8 (S, views, H, W): 0 = ground or backdrop, else the object's slot + 1


def render(
    batch: SceneBatch,
    *,
    width: int,
    height: int,
    quality: str = "faithful",
    device: str | None = None,
    views: Sequence[int] = VIEWS,
) -> RenderedImages:
    """Draw images of every scene.

    Args:
        batch: scenes; numpy arrays or torch tensors, moved to the device where needed.
        width: pixels across; whatever the grid, the image covers the same 3:2 view.
        height: pixels down.
        quality: a name in `QUALITIES`.
        device: "cpu" or a CUDA device; where the batch lies if not given.
        images: which of BEFORE, AFTER, SAME to draw, in this order.
    """
    effort = _quality(quality)
    _check_size(width, height)
    target = _Target(device or device_of(batch))
    tables = target.tables(batch, effort, 2 if AFTER in views else 1)
    codes = _codes(views)
    images = target.empty((len(batch), len(views), 3, height, width), "uint8")
    ids = target.empty((len(batch), len(views), height, width), "uint8")
    if images.shape[0]:
        target.loops.prepare(tables)
        target.loops.light(tables, effort.shadow_samples, effort.rays)
        target.loops.draw(tables, codes, effort.drawing(), images, ids)
    return RenderedImages(images=images, ids=ids)


def visible_pixels(
    batch: SceneBatch,
    *,
    width: int,
    height: int,
    device: str | None = None,
    views: Sequence[int] = VIEWS,
    enough: int | None = None,
) -> Any:
    """How many pixels every object shows, int32 (S, views, MAX_OBJECTS), by slot; counting ends at `enough`."""
    target = _Target(device or device_of(batch))
    tables = target.tables(batch, None)
    pixels = target.zeros((len(batch), len(views), MAX_OBJECTS), "int32")
    if pixels.shape[0]:
        target.loops.prepare(tables)
        target.loops.count(tables, _codes(views), (width, height), enough or width * height, pixels)
    return pixels


def device_of(batch: SceneBatch) -> str:
    """Where a batch lies."""
    return str(getattr(batch.count, "device", "cpu"))


def _codes(views: Sequence[int]) -> int:
    """Two bits for each image; see `pixels.view_at`."""
    if not set(views) <= set(VIEWS) or not views:
        raise ConfigError(f"images must be among {VIEWS}, not {tuple(views)}")
    return sum(int(view) << (2 * place) for place, view in enumerate(views))


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise ConfigError(f"an image needs at least one pixel each way, not {width}x{height}")


def _quality(name: str) -> Quality:
    if name not in QUALITIES:
        raise ConfigError(f"unknown quality {name!r}", hint=f"one of: {', '.join(QUALITIES)}")
    return QUALITIES[name]


class _Target:
    """The CPU or one CUDA device: its loops and its arrays."""

    def __init__(self, device: str) -> None:
        self.cuda = str(device).startswith("cuda")
        self.device = str(device)
        self.loops: Any
        if self.cuda:
            from spotchange.scenes.rendering import cuda as render_cuda

            self.loops = render_cuda
        elif self.device == "cpu":
            from spotchange.scenes.rendering import cpu as render_cpu

            self.loops = render_cpu
        else:
            raise ConfigError(f"the renderer runs on cpu or cuda, not on {device!r}")

    def empty(self, shape: tuple[int, ...], kind: str) -> Any:
        if not self.cuda:
            return np.empty(shape, dtype=kind)
        import torch

        return torch.empty(shape, dtype=getattr(torch, kind), device=self.device)

    def zeros(self, shape: tuple[int, ...], kind: str) -> Any:
        array = self.empty(shape, kind)
        array[...] = 0
        return array

    def take(self, array: Any, kind: str) -> Any:
        """An input array here, contiguous and of the right type."""
        if not self.cuda:
            array = array if isinstance(array, np.ndarray) else array.cpu().numpy()
            return np.ascontiguousarray(array, dtype=kind)
        import torch

        return torch.as_tensor(array, device=self.device).to(getattr(torch, kind)).contiguous()

    def tables(self, batch: SceneBatch, effort: Quality | None, versions: int = 2) -> Any:
        from spotchange.scenes.rendering.frame import Tables
        from spotchange.scenes.rendering.geometry import OBJECT_COLUMNS
        from spotchange.scenes.rendering.indirect import LEVELS, SIDES
        from spotchange.scenes.rendering.lights import LIGHT_COLUMNS, LIGHTS

        scenes = len(batch)
        cells = effort.shadow_cells if effort else 1
        bounced = effort.bounced_cells if effort else 1
        tables = Tables(
            scene_id=self.take(batch.scene_id, "int64"),
            counts=self.take(batch.count, "int32"),
            attributes=self.take(batch.attributes, "int8"),
            placement=self.take(batch.placement, "float32"),
            camera=self.take(batch.camera, "float32"),
            offsets=self.take(batch.lamps, "float32"),
            look=self.take(batch.look, "float32"),
            objects=self.empty((scenes, 2, MAX_OBJECTS, OBJECT_COLUMNS), "float32"),
            used=self.empty((scenes, 2), "int32"),
            lights=self.empty((scenes, LIGHTS, LIGHT_COLUMNS), "float32"),
            occluders=self.empty((scenes, 2, MAX_OBJECTS, LIGHTS), "int32"),
            clear=self.empty((scenes, versions, cells, cells, LIGHTS), "float32"),
            bounced=self.empty((scenes, versions, bounced, bounced, 3), "float32"),
            indirect=self.empty((scenes, versions, MAX_OBJECTS, LEVELS, SIDES, 3), "float32"),
        )
        return self.loops.as_arrays(tables)
