"""Light that has bounced before it reaches a point, gathered once a scene and looked up per pixel.

Three small tables stand for the indirect light of a scene:
- the ground's direct light on a grid, shadows included: what mirrors and neighbours see of the ground;
- the ground's own indirect light on a coarser grid: what objects throw back onto it;
- every object's indirect light by direction of the normal and by height: what ground and neighbours throw onto it.
"""

from __future__ import annotations

import math

import numpy as np

from . import look as looks
from .chance import point
from .compile import greater, lesser, shared
from .geometry import (
    BLUE,
    COS,
    CUBE,
    FAR,
    GREEN,
    HALF,
    KIND,
    METAL,
    RED,
    ROUND,
    SIN,
    SPHERE,
    X,
    Y,
    first_hit,
    ground_normal,
    hit_ground,
    object_normal,
)
from .lighting import PI, frame_around, matte_light, shadowed_light

F = np.float32

REACH = F(7.0)  # the grids cover the ground from -REACH to REACH on both axes
LEVELS, SIDES = 5, 8
TOP = LEVELS - 1
AMBIENT = F(0.006)  # what arrives on the ground from far away, as radiance of a white surface


@shared
def cell_centre(index, cells):
    """Coordinate of the middle of grid cell `index`."""
    return (F(2.0) * (F(index) + F(0.5)) / F(cells) - F(1.0)) * REACH


@shared
def look_up(grid, x, y):
    """Bilinear value of a (cells, cells, 3) grid over the ground."""
    cells = grid.shape[0]
    u = lesser(greater((x / REACH + F(1.0)) * F(0.5) * F(cells) - F(0.5), F(0.0)), F(cells - 1) - F(0.001))
    v = lesser(greater((y / REACH + F(1.0)) * F(0.5) * F(cells) - F(0.5), F(0.0)), F(cells - 1) - F(0.001))
    i, j = int(u), int(v)
    p, q = u - F(i), v - F(j)
    a, b, c, d = (F(1.0) - q) * (F(1.0) - p), (F(1.0) - q) * p, q * (F(1.0) - p), q * p
    r = a * grid[j, i, 0] + b * grid[j, i + 1, 0] + c * grid[j + 1, i, 0] + d * grid[j + 1, i + 1, 0]
    g = a * grid[j, i, 1] + b * grid[j, i + 1, 1] + c * grid[j + 1, i, 1] + d * grid[j + 1, i + 1, 1]
    s = a * grid[j, i, 2] + b * grid[j, i + 1, 2] + c * grid[j + 1, i, 2] + d * grid[j + 1, i + 1, 2]
    return r, g, s


@shared
def ground_radiance(scene, x, y, z):
    """Radiance of the ground or the backdrop at a point, from the tables."""
    look = scene.look
    if z < F(0.01) and abs(x) < REACH and abs(y) < REACH:
        r, g, b = look_up(scene.direct, x, y)
        p, q, s = look_up(scene.bounced, x, y)
    else:
        nx, ny, nz = ground_normal(x, y, z)
        r, g, b = matte_light(scene.lights, x, y, z, nx, ny, nz)
        p, q, s = AMBIENT, AMBIENT, AMBIENT
    return (
        look[looks.GROUND_RED] * (r + p),
        look[looks.GROUND_GREEN] * (g + q),
        look[looks.GROUND_BLUE] * (b + s),
    )


@shared
def rough_radiance(scene, k, x, y, z):
    """Radiance of an object's surface as its neighbours see it: matte, with open ground below and no shadows."""
    objects = scene.objects
    nx, ny, nz = object_normal(objects, k, x, y, z)
    r, g, b = matte_light(scene.lights, x, y, z, nx, ny, nz)
    ground = F(0.21) * F(0.5) * (F(1.0) - nz)
    if objects[k, METAL] > F(0.5):
        r, g, b = F(0.0), F(0.0), F(0.0)
        ground = F(0.14)
    return objects[k, RED] * (r + ground), objects[k, GREEN] * (g + ground), objects[k, BLUE] * (b + ground)


@shared
def gather(scene, skip, x, y, z, nx, ny, nz, key, rays):
    """Indirect light on a matte point as radiance of a white surface: the mean over rays of cosine density."""
    tx, ty, tz, bx, by, bz = frame_around(nx, ny, nz)
    r, g, b = F(0.0), F(0.0), F(0.0)
    for i in range(rays):
        u, v = point((key, i, rays), 7)
        radius, angle = math.sqrt(u), F(2.0) * PI * v
        p, q, up = radius * math.cos(angle), radius * math.sin(angle), math.sqrt(F(1.0) - u)
        dx, dy, dz = p * tx + q * bx + up * nx, p * ty + q * by + up * ny, p * tz + q * bz + up * nz
        floor = hit_ground(x, y, z, dx, dy, dz) if skip >= 0 or dz > F(0.0) else FAR
        k, t = first_hit(scene.objects, scene.count, skip, x, y, z, dx, dy, dz, floor)
        hx, hy, hz = x + t * dx, y + t * dy, z + t * dz
        if k >= 0:
            dr, dg, db = rough_radiance(scene, k, hx, hy, hz)
        elif t < FAR:
            dr, dg, db = ground_radiance(scene, hx, hy, hz)
        else:
            dr, dg, db = scene.look[looks.SKY_RED], scene.look[looks.SKY_GREEN], scene.look[looks.SKY_BLUE]
        r, g, b = r + dr, g + dg, b + db
    share = F(1.0) / F(rays)
    return r * share, g * share, b * share


@shared
def light_cell(scene, x, y, key, samples):
    """Direct light on a cell of the ground."""
    r, g, b = F(0.0), F(0.0), F(0.0)
    for i in range(samples):
        dr, dg, db = shadowed_light(scene, -1, x, y, F(0.0), F(0.0), F(0.0), F(1.0), (key, i, samples))
        r, g, b = r + dr, g + dg, b + db
    share = F(1.0) / F(samples)
    return r * share, g * share, b * share


@shared
def patch_of_object(objects, k, level, side):
    """A point of object k's surface and the normal there, for one entry of its table."""
    half, inner = objects[k, HALF], objects[k, HALF] - objects[k, ROUND]
    angle = F(side) * F(2.0 * math.pi / SIDES)
    ux, uy = math.cos(angle), math.sin(angle)
    if objects[k, KIND] == F(SPHERE):
        nz = F(-0.9) + F(0.45) * F(level)
        flat = math.sqrt(F(1.0) - nz * nz)
        return (
            objects[k, X] + half * flat * ux,
            objects[k, Y] + half * flat * uy,
            half + half * nz,
            flat * ux,
            flat * uy,
            nz,
        )
    cos, sin = objects[k, COS], objects[k, SIN]
    nx, ny = cos * ux - sin * uy, sin * ux + cos * uy
    if level == TOP:
        away = F(0.5) * half
        return objects[k, X] + away * nx, objects[k, Y] + away * ny, F(2.0) * half, F(0.0), F(0.0), F(1.0)
    if objects[k, KIND] == F(CUBE):
        lx = math.copysign(inner, ux) if abs(ux) > F(0.1) else F(0.0)
        ly = math.copysign(inner, uy) if abs(uy) > F(0.1) else F(0.0)
        lx, ly = lx + objects[k, ROUND] * ux, ly + objects[k, ROUND] * uy
    else:
        lx, ly = half * ux, half * uy
    z = half * (F(0.15) + F(1.7 / (TOP - 1)) * F(level))
    return objects[k, X] + cos * lx - sin * ly, objects[k, Y] + sin * lx + cos * ly, z, nx, ny, F(0.0)


@shared
def indirect_on_object(objects, k, table, x, y, z, nx, ny, nz):
    """Indirect light on object k at a point with normal n, from its (MAX_OBJECTS, LEVELS, SIDES, 3) table."""
    half = objects[k, HALF]
    if objects[k, KIND] == F(SPHERE):
        lx, ly = nx, ny
        level, top = (nz + F(0.9)) / F(0.45), F(0.0)
        level = lesser(greater(level, F(0.0)), F(TOP) - F(0.001))
    else:
        cos, sin = objects[k, COS], objects[k, SIN]
        lx, ly = cos * nx + sin * ny, cos * ny - sin * nx
        level = (z / half - F(0.15)) / F(1.7 / (TOP - 1))
        level = lesser(greater(level, F(0.0)), F(TOP - 1) - F(0.001))
        top = greater(nz, F(0.0)) * greater(nz, F(0.0))
    turn = math.atan2(ly, lx) * F(SIDES / (2.0 * math.pi))
    if turn < F(0.0):
        turn += F(SIDES)
    i, j = int(level), int(turn)
    p, q = level - F(i), turn - F(j)
    j = j % SIDES
    n = (j + 1) % SIDES
    a, b = (F(1.0) - p) * (F(1.0) - top), p * (F(1.0) - top)
    left, right = F(1.0) - q, q
    r = left * (a * table[k, i, j, 0] + b * table[k, i + 1, j, 0] + top * table[k, TOP, j, 0])
    r += right * (a * table[k, i, n, 0] + b * table[k, i + 1, n, 0] + top * table[k, TOP, n, 0])
    g = left * (a * table[k, i, j, 1] + b * table[k, i + 1, j, 1] + top * table[k, TOP, j, 1])
    g += right * (a * table[k, i, n, 1] + b * table[k, i + 1, n, 1] + top * table[k, TOP, n, 1])
    s = left * (a * table[k, i, j, 2] + b * table[k, i + 1, j, 2] + top * table[k, TOP, j, 2])
    s += right * (a * table[k, i, n, 2] + b * table[k, i + 1, n, 2] + top * table[k, TOP, n, 2])
    return r, g, s
