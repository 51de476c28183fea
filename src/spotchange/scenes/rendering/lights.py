"""Lamps and sun: what they give a point, where they stand, and what of them gets through between the objects.

Intensities are kept divided by pi, so that a matte surface's radiance is albedo x intensity x cosine.
"""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, shared
from spotchange.scenes import appearance
from spotchange.scenes.rendering.geometry import BOUND, FAR, HALF, X, Y, blocked, objects_near

F = np.float32

# Columns of a light's row. Rows: key, back, fill, sun.
PX, NX, UX, VX, INTENSITY, RADIANCE = 0, 3, 6, 9, 12, 15
LIGHT_COLUMNS = 18
LIGHTS, SUN = 4, 3

# x, y, z, side, power, red, green, blue
LAMPS = np.array(
    [
        [6.447, -2.905, 4.258, 0.5, 78.54, 1.0, 0.932, 0.817],
        [-1.169, 2.646, 5.816, 1.0, 39.27, 1.0, 1.0, 1.0],
        [-4.671, -4.014, 3.011, 0.5, 23.56, 0.762, 0.818, 1.0],
    ],
    dtype=np.float32,
)
SUN_DIRECTION = np.array([0.414, -0.195, 0.889], dtype=np.float32)  # towards the sun
SUN_STRENGTH = F(0.45)
SUN_SPREAD = F(math.tan(0.199 / 2))  # radius of the disc one unit away
SUN_SOLID_ANGLE = F(math.pi * (0.199 / 2) ** 2)
PI = F(math.pi)


@shared
def frame_around(nx, ny, nz):
    """Two unit vectors that make a right-handed frame with n."""
    side = math.copysign(F(1.0), nz)
    a = F(-1.0) / (side + nz)
    b = nx * ny * a
    return F(1.0) + side * nx * nx * a, side * b, -side * nx, b, side + ny * ny * a, -ny


@shared
def prepare_lights(lights, offsets, look):
    """Fill one scene's lights from its lamp offsets and its look."""
    for lamp in range(3):
        x, y, z = (
            LAMPS[lamp, 0] + offsets[lamp, 0],
            LAMPS[lamp, 1] + offsets[lamp, 1],
            LAMPS[lamp, 2] + offsets[lamp, 2],
        )
        far = math.sqrt(x * x + y * y + z * z)
        nx, ny, nz = -x / far, -y / far, -z / far
        half = LAMPS[lamp, 3] * F(0.5)
        # A lamp turned to face a point keeps one edge level.
        flat = math.sqrt(nx * nx + ny * ny)
        ux, uy, uz = ny / flat, -nx / flat, F(0.0)
        vx, vy, vz = uy * nz - uz * ny, uz * nx - ux * nz, ux * ny - uy * nx
        lights[lamp, PX], lights[lamp, PX + 1], lights[lamp, PX + 2] = x, y, z
        lights[lamp, NX], lights[lamp, NX + 1], lights[lamp, NX + 2] = nx, ny, nz
        lights[lamp, UX], lights[lamp, UX + 1], lights[lamp, UX + 2] = ux * half, uy * half, uz * half
        lights[lamp, VX], lights[lamp, VX + 1], lights[lamp, VX + 2] = vx * half, vy * half, vz * half
        power = LAMPS[lamp, 4] * look[appearance.KEY_POWER + lamp]
        warmth = look[appearance.KEY_WARMTH + lamp]
        area = LAMPS[lamp, 3] * LAMPS[lamp, 3]
        for c in range(3):
            watts = power * LAMPS[lamp, 5 + c] * (F(1.0) + warmth * F(1 - c))
            lights[lamp, INTENSITY + c] = watts / (PI * PI)
            lights[lamp, RADIANCE + c] = watts / (PI * area)
    for c in range(3):
        strength = SUN_STRENGTH * look[appearance.SUN_POWER] * (F(1.0) + look[appearance.SUN_WARMTH] * F(1 - c))
        lights[SUN, NX + c] = SUN_DIRECTION[c]
        lights[SUN, INTENSITY + c] = strength / PI
        lights[SUN, RADIANCE + c] = strength / SUN_SOLID_ANGLE
    frame = frame_around(SUN_DIRECTION[0], SUN_DIRECTION[1], SUN_DIRECTION[2])
    for c in range(6):
        lights[SUN, UX + c] = frame[c]


@shared
def light_from(lights, lamp, x, y, z):
    """Direction to light from a point, and its intensity there as a factor of its colour."""
    if lamp == SUN:
        return lights[SUN, NX], lights[SUN, NX + 1], lights[SUN, NX + 2], F(1.0)
    dx, dy, dz = lights[lamp, PX] - x, lights[lamp, PX + 1] - y, lights[lamp, PX + 2] - z
    square = dx * dx + dy * dy + dz * dz
    near = F(1.0) / math.sqrt(square)
    dx, dy, dz = dx * near, dy * near, dz * near
    facing = -(dx * lights[lamp, NX] + dy * lights[lamp, NX + 1] + dz * lights[lamp, NX + 2])
    return dx, dy, dz, greater(facing, F(0.0)) / square


@shared
def sees_light(scene, lamp, mask, x, y, z, a, b):
    """1 where the point (a, b) of a light's surface, both in [0, 1), is seen past the masked objects, else 0."""
    lights = scene.lights
    if lamp == SUN:
        angle, radius = F(2.0) * PI * a, SUN_SPREAD * math.sqrt(b)
        p, q = radius * math.cos(angle), radius * math.sin(angle)
        limit = FAR
        dx = lights[SUN, NX] + p * lights[SUN, UX] + q * lights[SUN, VX]
        dy = lights[SUN, NX + 1] + p * lights[SUN, UX + 1] + q * lights[SUN, VX + 1]
        dz = lights[SUN, NX + 2] + p * lights[SUN, UX + 2] + q * lights[SUN, VX + 2]
        scale = F(1.0) / math.sqrt(dx * dx + dy * dy + dz * dz)
    else:
        p, q = F(2.0) * a - F(1.0), F(2.0) * b - F(1.0)
        dx = lights[lamp, PX] + p * lights[lamp, UX] + q * lights[lamp, VX] - x
        dy = lights[lamp, PX + 1] + p * lights[lamp, UX + 1] + q * lights[lamp, VX + 1] - y
        dz = lights[lamp, PX + 2] + p * lights[lamp, UX + 2] + q * lights[lamp, VX + 2] - z
        limit = math.sqrt(dx * dx + dy * dy + dz * dz)
        scale = F(1.0) / limit
    if blocked(scene.objects, mask, x, y, z, dx * scale, dy * scale, dz * scale, limit):
        return F(0.0)
    return F(1.0)


@shared
def objects_before_light(scene, lamp, x, y, z):
    """Mask of the objects that may hide some of a light from a point."""
    lights = scene.lights
    if lamp == SUN:
        dx, dy, dz, widening = lights[SUN, NX], lights[SUN, NX + 1], lights[SUN, NX + 2], SUN_SPREAD
    else:
        dx, dy, dz = lights[lamp, PX] - x, lights[lamp, PX + 1] - y, lights[lamp, PX + 2] - z
        far = math.sqrt(dx * dx + dy * dy + dz * dz)
        dx, dy, dz = dx / far, dy / far, dz / far
        half = math.sqrt(lights[lamp, UX] ** 2 + lights[lamp, UX + 1] ** 2 + lights[lamp, UX + 2] ** 2)
        corner = half * F(1.415)
        widening = corner / greater(far - corner, F(0.1))  # however the lamp is turned
    return objects_near(scene.objects, scene.count, x, y, z, dx, dy, dz, widening)


@shared
def matte_light(lights, x, y, z, nx, ny, nz):
    """Light on a matte point with nothing in the way, as radiance of a white surface."""
    r, g, b = F(0.0), F(0.0), F(0.0)
    for lamp in range(LIGHTS):
        dx, dy, dz, strength = light_from(lights, lamp, x, y, z)
        strength *= greater(nx * dx + ny * dy + nz * dz, F(0.0))
        r += strength * lights[lamp, INTENSITY]
        g += strength * lights[lamp, INTENSITY + 1]
        b += strength * lights[lamp, INTENSITY + 2]
    return r, g, b


@shared
def dimmed_light(lights, clear, x, y, z, nx, ny, nz):
    """Light on a matte point of which a share of each light arrives, as radiance of a white surface."""
    r, g, b = F(0.0), F(0.0), F(0.0)
    for lamp in range(LIGHTS):
        dx, dy, dz, strength = light_from(lights, lamp, x, y, z)
        strength *= clear[lamp] * greater(nx * dx + ny * dy + nz * dz, F(0.0))
        r += strength * lights[lamp, INTENSITY]
        g += strength * lights[lamp, INTENSITY + 1]
        b += strength * lights[lamp, INTENSITY + 2]
    return r, g, b


@shared
def fill_occluders(occluders, objects, count, lights):
    """For every object and light a mask of the objects that may stand between them."""
    for k in range(count):
        cx, cy, cz = objects[k, X], objects[k, Y], objects[k, HALF]
        own = math.sqrt(objects[k, BOUND])
        for lamp in range(LIGHTS):
            dx, dy, dz, _ = light_from(lights, lamp, cx, cy, cz)
            mask = 0
            for other in range(count):
                px, py, pz = objects[other, X] - cx, objects[other, Y] - cy, objects[other, HALF] - cz
                along = px * dx + py * dy + pz * dz
                theirs = math.sqrt(objects[other, BOUND])
                # Half a lamp's diagonal is at most 0.71; the sun's rays fan out by SUN_SPREAD.
                wide = own + SUN_SPREAD * abs(along) if lamp == SUN else greater(own, F(0.71))
                reach = wide + theirs
                aside = px * px + py * py + pz * pz - along * along
                if other != k and along > -reach and aside < reach * reach:
                    mask |= 1 << other
            occluders[k, lamp] = mask


@shared
def meets_light(lights, lamp, x, y, z, dx, dy, dz, limit):
    """Whether a ray of length limit ends on a light's bright side."""
    facing = dx * lights[lamp, NX] + dy * lights[lamp, NX + 1] + dz * lights[lamp, NX + 2]
    if lamp == SUN:  # its normal is kept towards the sun
        return limit >= FAR and facing > F(0.0) and F(1.0) - facing * facing < (SUN_SPREAD * facing) ** 2
    px, py, pz = lights[lamp, PX] - x, lights[lamp, PX + 1] - y, lights[lamp, PX + 2] - z
    t = (px * lights[lamp, NX] + py * lights[lamp, NX + 1] + pz * lights[lamp, NX + 2]) / facing
    if facing >= F(0.0) or t <= F(0.0) or t >= limit:
        return False
    px, py, pz = t * dx - px, t * dy - py, t * dz - pz
    ux, uy, uz = lights[lamp, UX], lights[lamp, UX + 1], lights[lamp, UX + 2]
    p = px * ux + py * uy + pz * uz
    q = px * lights[lamp, VX] + py * lights[lamp, VX + 1] + pz * lights[lamp, VX + 2]
    size = ux * ux + uy * uy + uz * uz
    return abs(p) < size and abs(q) < size


@shared
def lamps_in_mirror(lights, x, y, z, dx, dy, dz, limit):
    """Radiance of the lamps and the sun met by a ray of length limit."""
    r, g, b = F(0.0), F(0.0), F(0.0)
    for lamp in range(LIGHTS):
        if meets_light(lights, lamp, x, y, z, dx, dy, dz, limit):
            r += lights[lamp, RADIANCE]
            g += lights[lamp, RADIANCE + 1]
            b += lights[lamp, RADIANCE + 2]
    return r, g, b
