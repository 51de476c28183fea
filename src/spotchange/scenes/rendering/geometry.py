"""Where rays meet spheres, rounded cubes, rounded cylinders, the ground and its backdrop.

An object is one row of a float32 array, see the column names below. All objects are convex, so a ray that leaves an
object never meets it again: callers name that object in `skip` instead of nudging the origin.
"""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared

F = np.float32

# Columns of an object's row.
X, Y, HALF, COS, SIN, KIND, METAL, RED, GREEN, BLUE, BOUND, ROUND, SLOT = range(13)
OBJECT_COLUMNS = 13
CUBE, SPHERE, CYLINDER = 0, 1, 2

FAR = F(1e8)
CUBE_ROUNDING = F(0.21)  # of the half edge
CYLINDER_ROUNDING = F(0.07)
TRACE_STEPS = 10

# The ground is flat up to BACKDROP_START along one direction, then bends up on a circle into a wall. It ends on the
# other sides: metal mirrors black beyond. Fitted to what large metal spheres show of it in Blender's images.
BACKDROP_X, BACKDROP_Y = F(-0.9333), F(0.3589)
BACKDROP_START = F(8.5)
BACKDROP_RADIUS = F(8.0)
BACKDROP_HEIGHT = F(21.0)
GROUND_NEAR, GROUND_LEFT, GROUND_RIGHT = F(-13.0), F(-28.0), F(31.0)


@shared
def box_distance(x, y, z, inner, rounding):
    """Signed distance to a cube of half edge inner + rounding whose edges are rounded."""
    qx, qy, qz = abs(x) - inner, abs(y) - inner, abs(z) - inner
    ax, ay, az = greater(qx, F(0.0)), greater(qy, F(0.0)), greater(qz, F(0.0))
    return math.sqrt(ax * ax + ay * ay + az * az) + lesser(greater(qx, greater(qy, qz)), F(0.0)) - rounding


@shared
def cylinder_distance(x, y, z, inner, rounding):
    """Signed distance to a cylinder as high as wide whose rims are rounded."""
    qr, qz = math.sqrt(x * x + y * y) - inner, abs(z) - inner
    ar, az = greater(qr, F(0.0)), greater(qz, F(0.0))
    return math.sqrt(ar * ar + az * az) + lesser(greater(qr, qz), F(0.0)) - rounding


@shared
def hit_box(ox, oy, oz, dx, dy, dz, half, rounding):
    """Distance along a ray in the cube's own frame, FAR where it misses."""
    ix, iy, iz = F(1.0) / dx, F(1.0) / dy, F(1.0) / dz
    near = greater(greater(-ox * ix - half * abs(ix), -oy * iy - half * abs(iy)), -oz * iz - half * abs(iz))
    far = lesser(lesser(-ox * ix + half * abs(ix), -oy * iy + half * abs(iy)), -oz * iz + half * abs(iz))
    if near > far or far < F(0.0):
        return FAR
    inner = half - rounding
    t = greater(near, F(0.0))
    for _ in range(TRACE_STEPS):  # the first step ends the search on the flat part of a face
        step = box_distance(ox + t * dx, oy + t * dy, oz + t * dz, inner, rounding)
        if step < F(0.002) * half:
            return t
        t += step
        if t > far:
            return FAR
    return t


@shared
def hit_cylinder(ox, oy, oz, dx, dy, dz, half, rounding):
    """Distance along a ray in the cylinder's own frame, FAR where it misses."""
    iz = F(1.0) / dz
    a = dx * dx + dy * dy + F(1e-12)
    b = ox * dx + oy * dy
    c = ox * ox + oy * oy - half * half
    root = b * b - a * c
    if root < F(0.0):
        return FAR
    root = math.sqrt(root)
    near = greater((-b - root) / a, -oz * iz - half * abs(iz))
    far = lesser((-b + root) / a, -oz * iz + half * abs(iz))
    if near > far or far < F(0.0):
        return FAR
    inner = half - rounding
    t = greater(near, F(0.0))
    for _ in range(TRACE_STEPS):
        step = cylinder_distance(ox + t * dx, oy + t * dy, oz + t * dz, inner, rounding)
        if step < F(0.002) * half:
            return t
        t += step
        if t > far:
            return FAR
    return t


@shared
def hit_object(objects, k, ox, oy, oz, dx, dy, dz, limit):
    """Distance to object k along a ray, FAR where it is missed or farther away than limit."""
    half = objects[k, HALF]
    px, py, pz = ox - objects[k, X], oy - objects[k, Y], oz - half
    b = px * dx + py * dy + pz * dz
    c = px * px + py * py + pz * pz - objects[k, BOUND]
    root = b * b - c
    if root < F(0.0) or (b > F(0.0) and c > F(0.0)):
        return FAR
    root = math.sqrt(root)
    if -b - root > limit:
        return FAR
    kind = objects[k, KIND]
    if kind == F(SPHERE):
        # Where the sphere rests on the ground, rounding must not decide whether a ray starts inside it.
        return -b - root if c > F(1e-4) else FAR
    cos, sin = objects[k, COS], objects[k, SIN]
    lx, ly = cos * px + sin * py, cos * py - sin * px
    mx, my = cos * dx + sin * dy, cos * dy - sin * dx
    if kind == F(CUBE):
        return hit_box(lx, ly, pz, mx, my, dz, half, objects[k, ROUND])
    return hit_cylinder(lx, ly, pz, mx, my, dz, half, objects[k, ROUND])


@shared
def everything(count):
    """Mask of all objects: bit k stands for object k."""
    return (1 << count) - 1


@shared
def without(mask, k):
    """A mask less object k, or unchanged for k = -1."""
    return mask & ~(1 << k) if k >= 0 else mask


@shared
def first_hit(objects, mask, ox, oy, oz, dx, dy, dz, limit):
    """Nearest of the masked objects along a ray and its distance; -1 where none lies before limit."""
    best, nearest = -1, limit
    k = 0
    while mask != 0:
        if mask & 1:
            t = hit_object(objects, k, ox, oy, oz, dx, dy, dz, nearest)
            if t < nearest:
                best, nearest = k, t
        mask >>= 1
        k += 1
    return best, nearest


@shared
def blocked(objects, mask, ox, oy, oz, dx, dy, dz, limit):
    """Whether any of the masked objects stands between the origin and limit along a ray."""
    k = 0
    while mask != 0:
        if mask & 1 and hit_object(objects, k, ox, oy, oz, dx, dy, dz, limit) < limit:
            return True
        mask >>= 1
        k += 1
    return False


@shared
def meets_padded(objects, k, px, py, pz, dx, dy, dz, padding):
    """Whether a ray from p, counted from object k's centre, meets the sharp-edged cube or cylinder around the object
    grown by `padding`: every ray that stays within `padding` of this one and meets the object makes this one do so."""
    half = objects[k, HALF] + padding
    iz = F(1.0) / dz
    near, far = -pz * iz - half * abs(iz), -pz * iz + half * abs(iz)
    if objects[k, KIND] == F(CUBE):
        cos, sin = objects[k, COS], objects[k, SIN]
        lx, ly = cos * px + sin * py, cos * py - sin * px
        ix, iy = F(1.0) / (cos * dx + sin * dy), F(1.0) / (cos * dy - sin * dx)
        near = greater(near, greater(-lx * ix - half * abs(ix), -ly * iy - half * abs(iy)))
        far = lesser(far, lesser(-lx * ix + half * abs(ix), -ly * iy + half * abs(iy)))
        return near <= far and far >= F(0.0)
    a = dx * dx + dy * dy + F(1e-12)
    b = px * dx + py * dy
    root = b * b - a * (px * px + py * py - half * half)
    if root < F(0.0):
        return False
    root = math.sqrt(root)
    return greater(near, (-b - root) / a) <= lesser(far, (-b + root) / a) and (-b + root) >= F(0.0)


@shared
def objects_near(objects, count, ox, oy, oz, dx, dy, dz, widening):
    """Mask of the objects that rays of a cone around this one may meet; its radius is `widening` a unit of length."""
    mask = 0
    slant = F(1.0) + F(0.5) * widening * widening
    for k in range(count):
        px, py, pz = objects[k, X] - ox, objects[k, Y] - oy, objects[k, HALF] - oz
        along = px * dx + py * dy + pz * dz
        own = math.sqrt(objects[k, BOUND])
        reach = own * slant + abs(along) * widening
        if along > -reach and px * px + py * py + pz * pz - along * along < reach * reach:
            padding = (abs(along) + own) * widening
            if objects[k, KIND] == F(SPHERE) or meets_padded(objects, k, -px, -py, -pz, dx, dy, dz, padding):
                mask |= 1 << k
    return mask


@shared
def object_normal(objects, k, x, y, z):
    """Outward unit normal of object k at a point of its surface."""
    half = objects[k, HALF]
    px, py, pz = x - objects[k, X], y - objects[k, Y], z - half
    kind = objects[k, KIND]
    if kind == F(SPHERE):
        scale = F(1.0) / half
        return px * scale, py * scale, pz * scale
    inner = half - objects[k, ROUND]
    nz = math.copysign(greater(abs(pz) - inner, F(0.0)), pz)
    if kind == F(CYLINDER):
        radius = math.sqrt(px * px + py * py) + F(1e-9)
        out = greater(radius - inner, F(0.0)) / radius
        nx, ny = px * out, py * out
    else:
        cos, sin = objects[k, COS], objects[k, SIN]
        lx, ly = cos * px + sin * py, cos * py - sin * px
        lx = math.copysign(greater(abs(lx) - inner, F(0.0)), lx)
        ly = math.copysign(greater(abs(ly) - inner, F(0.0)), ly)
        nx, ny = cos * lx - sin * ly, sin * lx + cos * ly
    scale = F(1.0) / math.sqrt(nx * nx + ny * ny + nz * nz + F(1e-20))
    return nx * scale, ny * scale, nz * scale


@shared
def beside_objects(objects, count, x, y):
    """A ground point, or the nearest free one where a cube or cylinder stands on it."""
    for k in range(count):
        half = objects[k, HALF] + F(0.01)
        px, py = x - objects[k, X], y - objects[k, Y]
        if objects[k, KIND] == F(CYLINDER):
            radius = math.sqrt(px * px + py * py) + F(1e-6)
            if radius < half:
                return objects[k, X] + px * half / radius, objects[k, Y] + py * half / radius
        elif objects[k, KIND] == F(CUBE):
            cos, sin = objects[k, COS], objects[k, SIN]
            lx, ly = cos * px + sin * py, cos * py - sin * px
            if abs(lx) < half and abs(ly) < half:
                if abs(lx) > abs(ly):
                    lx = math.copysign(half, lx)
                else:
                    ly = math.copysign(half, ly)
                return objects[k, X] + cos * lx - sin * ly, objects[k, Y] + sin * lx + cos * ly
    return x, y


@shared
def is_across(x, y):
    """Whether a point lies between the left and right edges of the ground."""
    right = y * -BACKDROP_X + x * BACKDROP_Y
    return right > GROUND_LEFT and right < GROUND_RIGHT


@shared
def hit_ground(ox, oy, oz, dx, dy, dz):
    """Distance to the ground or its backdrop, FAR for a ray into the open."""
    t = FAR
    if dz < F(0.0):
        t = -oz / dz
        depth = (ox + t * dx) * BACKDROP_X + (oy + t * dy) * BACKDROP_Y
        if depth <= BACKDROP_START:
            return t if depth > GROUND_NEAR and is_across(ox + t * dx, oy + t * dy) else FAR
    along = dx * BACKDROP_X + dy * BACKDROP_Y
    if along <= F(1e-4):
        return FAR
    depth = ox * BACKDROP_X + oy * BACKDROP_Y - BACKDROP_START
    height = oz - BACKDROP_RADIUS
    a = along * along + dz * dz
    b = depth * along + height * dz
    root = b * b - a * (depth * depth + height * height - BACKDROP_RADIUS * BACKDROP_RADIUS)
    if root > F(0.0):
        bend = (-b + math.sqrt(root)) / a
        if oz + bend * dz <= BACKDROP_RADIUS and bend > F(0.0):
            return bend if is_across(ox + bend * dx, oy + bend * dy) else FAR
    wall = (BACKDROP_RADIUS - depth) / along
    return wall if oz + wall * dz < BACKDROP_HEIGHT and is_across(ox + wall * dx, oy + wall * dy) else FAR


@shared
def ground_normal(x, y, z):
    """Unit normal of the ground or backdrop, facing the scene."""
    depth = x * BACKDROP_X + y * BACKDROP_Y - BACKDROP_START
    if depth <= F(0.0):
        return F(0.0), F(0.0), F(1.0)
    rise = greater(BACKDROP_RADIUS - z, F(0.0))
    scale = F(1.0) / math.sqrt(depth * depth + rise * rise)
    return -depth * scale * BACKDROP_X, -depth * scale * BACKDROP_Y, rise * scale
