"""What an image is drawn from, and its first work items: one scene, one entry of a table of light."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared
from spotchange.scene import COLOR, MATERIAL, MAX_OBJECTS, SHAPE, SIZE
from spotchange.scenes import appearance
from spotchange.scenes.rendering.geometry import (
    BOUND,
    COS,
    CUBE,
    CUBE_ROUNDING,
    CYLINDER_ROUNDING,
    HALF,
    KIND,
    METAL,
    RED,
    ROUND,
    SIN,
    SLOT,
    SPHERE,
    X,
    Y,
    beside_objects,
)
from spotchange.scenes.rendering.indirect import LEVELS, SIDES, cell_centre, clear_share, gather, patch_of_object
from spotchange.scenes.rendering.lights import LIGHTS, fill_occluders, prepare_lights
from spotchange.scenes.rendering.sampling import pixel_key

F = np.float32

# Given to the shader as they are, so these fractions are linear albedos.
PALETTE = (
    np.array(
        [
            [87, 87, 87],
            [173, 35, 35],
            [42, 75, 215],
            [29, 105, 20],
            [129, 74, 25],
            [129, 38, 192],
            [41, 208, 208],
            [255, 238, 51],
        ],
        dtype=np.float32,
    )
    / F(255.0)
).astype(np.float32)
LARGE, SMALL = F(0.7), F(0.35)


@shared
def prepare_object(row, slot, attributes, placement, look):
    """Fill one object's row from its attributes and its place."""
    half = LARGE if attributes[SIZE] == 0 else SMALL
    kind = attributes[SHAPE]
    theta = placement[2]
    row[X], row[Y], row[HALF] = placement[0], placement[1], half
    row[COS], row[SIN] = math.cos(theta), math.sin(theta)
    row[KIND], row[METAL], row[SLOT] = F(kind), F(attributes[MATERIAL]), F(slot)
    color = attributes[COLOR]
    grey = (PALETTE[color, 0] + PALETTE[color, 1] + PALETTE[color, 2]) * F(1.0 / 3.0)
    for c in range(3):
        value = grey + (PALETTE[color, c] - grey) * look[appearance.SATURATION]
        row[RED + c] = lesser(greater(value, F(0.0)), F(1.0))
    if kind == SPHERE:
        rounding, reach = F(0.0), half
    elif kind == CUBE:
        rounding = CUBE_ROUNDING * half
        reach = (half - rounding) * F(math.sqrt(3.0)) + rounding
    else:
        rounding = CYLINDER_ROUNDING * half
        reach = (half - rounding) * F(math.sqrt(2.0)) + rounding
    row[ROUND], row[BOUND] = rounding, reach * reach


class Tables(NamedTuple):
    """Everything the renderer reads and writes about a batch, as arrays of one device.

    The tables of light have one version where no image after the change is asked for.
    """

    scene_id: Any  # int64 (S,)
    counts: Any  # int32 (S, 2)
    attributes: Any  # int8 (S, 2, MAX_OBJECTS, 4)
    placement: Any  # float32 (S, 2, MAX_OBJECTS, 3)
    camera: Any  # float32 (S, 3, 3)
    offsets: Any  # float32 (S, 3, 3)
    look: Any  # float32 (S, appearance.SIZE)
    objects: Any  # float32 (S, 2, MAX_OBJECTS, OBJECT_COLUMNS)
    used: Any  # int32 (S, 2): how many rows of objects are filled
    lights: Any  # float32 (S, LIGHTS, LIGHT_COLUMNS)
    occluders: Any  # int32 (S, 2, MAX_OBJECTS, LIGHTS): masks of the objects that may shade an object
    clear: Any  # float32 (S, versions, cells, cells, LIGHTS)
    bounced: Any  # float32 (S, versions, cells, cells, 3)
    indirect: Any  # float32 (S, versions, MAX_OBJECTS, LEVELS, SIDES, 3)


class PreparedScene(NamedTuple):
    """One version of one scene, as the shading functions see it."""

    look: Any
    objects: Any
    count: Any
    lights: Any
    occluders: Any
    clear: Any
    bounced: Any
    indirect: Any


@shared
def scene_of(tables, s, version):
    """The views of one version of scene s."""
    return PreparedScene(
        tables.look[s],
        tables.objects[s, version],
        tables.used[s, version],
        tables.lights[s],
        tables.occluders[s, version],
        tables.clear[s, version],
        tables.bounced[s, version],
        tables.indirect[s, version],
    )


@shared
def prepare_scene(index, tables):
    """Objects and lights of one version of a scene; empty slots are left out."""
    s, version = index // 2, index % 2
    n = 0
    for slot in range(lesser(tables.counts[s, version], MAX_OBJECTS)):
        attributes = tables.attributes[s, version, slot]
        if attributes[SHAPE] >= 0:
            prepare_object(
                tables.objects[s, version, n], slot, attributes, tables.placement[s, version, slot], tables.look[s]
            )
            n += 1
    tables.used[s, version] = n
    # Both versions write the same lights, so each can go on without waiting for the other.
    prepare_lights(tables.lights[s], tables.offsets[s], tables.look[s])
    fill_occluders(tables.occluders[s, version], tables.objects[s, version], n, tables.lights[s])


@shared
def fill_clear(index, tables, samples):
    """One light's share at one cell of the ground."""
    cells = tables.clear.shape[2]
    lamp, column, row = index % LIGHTS, index // LIGHTS % cells, index // (LIGHTS * cells) % cells
    versions = tables.clear.shape[1]
    s, version = index // (LIGHTS * cells * cells * versions), index // (LIGHTS * cells * cells) % versions
    key = pixel_key(tables.scene_id[s], 16 + version, row * cells + column)
    scene = scene_of(tables, s, version)
    x, y = beside_objects(scene.objects, scene.count, cell_centre(column, cells), cell_centre(row, cells))
    share = clear_share(scene, lamp, x, y, key, samples)
    tables.clear[s, version, row, column, lamp] = share


@shared
def fill_bounced(index, tables, rays):
    """One cell of the ground's indirect light."""
    cells = tables.bounced.shape[2]
    column, row = index % cells, index // cells % cells
    versions = tables.bounced.shape[1]
    s, version = index // (cells * cells * versions), index // (cells * cells) % versions
    key = pixel_key(tables.scene_id[s], 18 + version, row * cells + column)
    scene = scene_of(tables, s, version)
    x, y = beside_objects(scene.objects, scene.count, cell_centre(column, cells), cell_centre(row, cells))
    light = gather(scene, -1, x, y, F(0.0), F(0.0), F(0.0), F(1.0), key, rays)
    store(tables.bounced[s, version, row, column], light)


@shared
def fill_indirect(index, tables, rays):
    """One entry of an object's indirect light."""
    side, level = index % SIDES, index // SIDES % LEVELS
    k = index // (SIDES * LEVELS) % MAX_OBJECTS
    entries, versions = SIDES * LEVELS * MAX_OBJECTS, tables.indirect.shape[1]
    s, version = index // (entries * versions), index // entries % versions
    if k < tables.used[s, version]:
        scene = scene_of(tables, s, version)
        x, y, z, nx, ny, nz = patch_of_object(scene.objects, k, level, side)
        key = pixel_key(tables.scene_id[s], 20 + version, index % entries)
        store(tables.indirect[s, version, k, level, side], gather(scene, k, x, y, z, nx, ny, nz, key, rays))


@shared
def store(cell, color):
    """Write a colour into a table."""
    cell[0], cell[1], cell[2] = color
