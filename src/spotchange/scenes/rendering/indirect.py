"""Light that has bounced before it reaches a point, gathered once a scene and looked up per pixel.

Three small tables stand for the indirect light of a scene:
- which share of each light reaches the ground, on a grid: shadows as mirrors and neighbours see them;
- the ground's own indirect light on a coarser grid: what objects throw back onto it;
- every object's indirect light by direction of the normal and by height: what ground and neighbours throw onto it.
"""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared
from spotchange.scenes import appearance
from spotchange.scenes.rendering.geometry import (
    BACKDROP_START,
    BACKDROP_X,
    BACKDROP_Y,
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
    everything,
    first_hit,
    ground_normal,
    hit_ground,
    object_normal,
    without,
)
from spotchange.scenes.rendering.lights import (
    PI,
    dimmed_light,
    frame_around,
    matte_light,
    objects_before_light,
    sees_light,
)
from spotchange.scenes.rendering.sampling import point

F = np.float32

REACH = F(6.0)  # the grids cover the ground from -REACH to REACH on both axes, all of it before the backdrop
LEVELS, SIDES = 5, 8
TOP = LEVELS - 1
AMBIENT = F(0.006)  # what arrives on the backdrop from everywhere else, as radiance of a white surface
# Light thrown to and fro between ground and backdrop: in the bend, with how fast it fades before and behind it, and
# high up the wall; fitted.
BEND_LIGHT, BEND_REACH, BEND_END = F(0.0125), F(4.2), F(0.8)
WALL_LIGHT, WALL_RISE = F(0.022), F(3.0)


@shared
def cell_centre(index, cells):
    """Coordinate of the middle of grid cell `index`."""
    return (F(2.0) * (F(index) + F(0.5)) / F(cells) - F(1.0)) * REACH


@shared
def cell_weights(cells, x, y):
    """The lower left of the four cells around a point of the ground, and how far towards the others it lies."""
    u = lesser(greater((x / REACH + F(1.0)) * F(0.5) * F(cells) - F(0.5), F(0.0)), F(cells - 1) - F(0.001))
    v = lesser(greater((y / REACH + F(1.0)) * F(0.5) * F(cells) - F(0.5), F(0.0)), F(cells - 1) - F(0.001))
    i, j = int(u), int(v)
    return i, j, u - F(i), v - F(j)


@shared
def blend(grid, i, j, p, q, channel):
    """Bilinear value of one channel of a grid."""
    low = grid[j, i, channel] + p * (grid[j, i + 1, channel] - grid[j, i, channel])
    high = grid[j + 1, i, channel] + p * (grid[j + 1, i + 1, channel] - grid[j + 1, i, channel])
    return low + q * (high - low)


@shared
def bounced_at(scene, x, y, z):
    """Indirect light on the ground, as radiance of a white surface."""
    grid = scene.bounced
    i, j, p, q = cell_weights(grid.shape[0], x, y)
    past = x * BACKDROP_X + y * BACKDROP_Y - BACKDROP_START
    bend = BEND_LIGHT * math.exp(past / BEND_REACH if past < F(0.0) else -past / BEND_END)
    bend += WALL_LIGHT * z * z / (z * z + WALL_RISE * WALL_RISE)
    return blend(grid, i, j, p, q, 0) + bend, blend(grid, i, j, p, q, 1) + bend, blend(grid, i, j, p, q, 2) + bend


@shared
def clear_at(scene, x, y):
    """Which share of each light reaches a point of the ground."""
    if abs(x) > REACH or abs(y) > REACH:
        return F(1.0), F(1.0), F(1.0), F(1.0)
    grid = scene.clear
    i, j, p, q = cell_weights(grid.shape[0], x, y)
    return (
        blend(grid, i, j, p, q, 0),
        blend(grid, i, j, p, q, 1),
        blend(grid, i, j, p, q, 2),
        blend(grid, i, j, p, q, 3),
    )


@shared
def ground_color(look, light, bounced):
    """Radiance of the ground in direct and indirect light."""
    r, g, b = light
    p, q, s = bounced
    return (
        look[appearance.GROUND_RED] * (r + p),
        look[appearance.GROUND_GREEN] * (g + q),
        look[appearance.GROUND_BLUE] * (b + s),
    )


@shared
def ground_radiance(scene, x, y, z):
    """Radiance of the ground or the backdrop at a point, from the tables."""
    nx, ny, nz = ground_normal(x, y, z)
    light = dimmed_light(scene.lights, clear_at(scene, x, y), x, y, z, nx, ny, nz)
    return ground_color(scene.look, light, bounced_at(scene, x, y, z))


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
    mask = without(everything(scene.count), skip)
    for i in range(rays):
        u, v = point((key, i, rays), 7)
        radius, angle = math.sqrt(u), F(2.0) * PI * v
        p, q, up = radius * math.cos(angle), radius * math.sin(angle), math.sqrt(F(1.0) - u)
        dx, dy, dz = p * tx + q * bx + up * nx, p * ty + q * by + up * ny, p * tz + q * bz + up * nz
        floor = hit_ground(x, y, z, dx, dy, dz) if skip >= 0 or dz > F(0.0) else FAR
        k, t = first_hit(scene.objects, mask, x, y, z, dx, dy, dz, floor)
        hx, hy, hz = x + t * dx, y + t * dy, z + t * dz
        if k >= 0:
            dr, dg, db = rough_radiance(scene, k, hx, hy, hz)
        elif t < FAR and skip < 0:  # from the ground only the backdrop is seen, and its table is not filled yet
            light = matte_light(scene.lights, hx, hy, hz, *ground_normal(hx, hy, hz))
            dr, dg, db = ground_color(scene.look, light, (AMBIENT, AMBIENT, AMBIENT))
        elif t < FAR:
            dr, dg, db = ground_radiance(scene, hx, hy, hz)
        else:
            dr, dg, db = (
                scene.look[appearance.SKY_RED],
                scene.look[appearance.SKY_GREEN],
                scene.look[appearance.SKY_BLUE],
            )
        r, g, b = r + dr, g + dg, b + db
    share = F(1.0) / F(rays)
    return r * share, g * share, b * share


@shared
def clear_share(scene, lamp, x, y, key, samples):
    """Which share of a light reaches a cell of the ground."""
    mask = objects_before_light(scene, lamp, x, y, F(0.0))
    if mask == 0:  # most cells: nothing stands between them and the light
        return F(1.0)
    seen = F(0.0)
    for i in range(samples):
        u, v = point((key, i, samples), 1 + lamp)
        seen += sees_light(scene, lamp, mask, x, y, F(0.0), u, v)
        if i == 3 and (seen < F(0.5) or seen > F(3.5)):  # four points of the light agree: no penumbra here
            return seen * F(0.25)
    return seen / F(samples)


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
