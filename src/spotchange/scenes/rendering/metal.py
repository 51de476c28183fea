"""Metal's reflections: its colour, its broad lobe, and the lamps in it.

The sharp lobe is followed as a path (see shading). The broad lobe blurs so much that its rays need only a glimpse of
what they meet; many cheap ones keep it free of noise.
"""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared
from spotchange.scenes import appearance
from spotchange.scenes.rendering.geometry import (
    BLUE,
    COS,
    CUBE,
    FAR,
    GREEN,
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
    hit_ground,
    object_normal,
    without,
)
from spotchange.scenes.rendering.indirect import ground_radiance, indirect_on_object
from spotchange.scenes.rendering.lights import (
    INTENSITY,
    LIGHTS,
    RADIANCE,
    light_from,
    matte_light,
    meets_light,
    sees_light,
)
from spotchange.scenes.rendering.materials import ggx, mirror_ray
from spotchange.scenes.rendering.sampling import point

F = np.float32

ANISOTROPY = F(0.25)


@shared
def brushed_frame(objects, k, x, y, nx, ny, nz):
    """Tangents of a metal surface: around the object's upright axis, as Blender lays them, and across."""
    tx, ty = objects[k, Y] - y, x - objects[k, X] + F(1e-6)
    lean = tx * nx + ty * ny
    tx, ty, tz = tx - lean * nx, ty - lean * ny, -lean * nz
    scale = F(1.0) / math.sqrt(tx * tx + ty * ty + tz * tz + F(1e-20))
    tx, ty, tz = tx * scale, ty * scale, tz * scale
    return tx, ty, tz, ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx


@shared
def lamp_gloss(scene, k, x, y, z, nx, ny, nz, dx, dy, dz, frame, along, across, dice, images):
    """Light of the lamps off a rough metal lobe; with `images` the lamps' own mirror images stand out of it."""
    lights = scene.lights
    tx, ty, tz, bx, by, bz = frame
    dot = nx * dx + ny * dy + nz * dz
    mx, my, mz = dx - F(2.0) * dot * nx, dy - F(2.0) * dot * ny, dz - F(2.0) * dot * nz
    r, g, b = F(0.0), F(0.0), F(0.0)
    for lamp in range(LIGHTS):
        lx, ly, lz, strength = light_from(lights, lamp, x, y, z)
        cos_in = nx * lx + ny * ly + nz * lz
        if cos_in > F(0.0) and strength > F(0.0):
            hx, hy, hz = lx - dx, ly - dy, lz - dz
            scale = F(1.0) / math.sqrt(hx * hx + hy * hy + hz * hz + F(1e-12))
            hx, hy, hz = hx * scale, hy * scale, hz * scale
            ht, hb, hn = hx * tx + hy * ty + hz * tz, hx * bx + hy * by + hz * bz, hx * nx + hy * ny + hz * nz
            gloss = ggx(cos_in, greater(-dot, F(0.02)), ht, hb, hn, along, across) * strength
            if images:
                # A narrow lobe sees the whole lamp or, off its edge, a glow that falls to less than half at once.
                whole = lights[lamp, RADIANCE] / lights[lamp, INTENSITY]
                seen = meets_light(lights, lamp, x, y, z, mx, my, mz, FAR)
                gloss = whole if seen else lesser(gloss, F(0.4) * whole)
            if gloss > F(1e-3):  # else too little to be worth a shadow ray
                u, v = point(dice, 1 + lamp)
                gloss *= sees_light(scene, lamp, scene.occluders[k, lamp], x, y, z, u, v)
            r += gloss * lights[lamp, INTENSITY]
            g += gloss * lights[lamp, INTENSITY + 1]
            b += gloss * lights[lamp, INTENSITY + 2]
    return r, g, b


@shared
def metal_color(objects, look, k):
    """Colour of a metal's reflections."""
    tint = look[appearance.METAL_TINT]
    plain = F(1.0) - tint
    return objects[k, RED] * tint + plain, objects[k, GREEN] * tint + plain, objects[k, BLUE] * tint + plain


@shared
def rounding_at(objects, k, nx, ny, nz):
    """Radius of the rounded edge where a cube or cylinder has this normal; negative on flat or large parts."""
    kind = objects[k, KIND]
    if kind == F(SPHERE):
        return F(-1.0)
    largest = greater(abs(nz), math.sqrt(nx * nx + ny * ny))
    if kind == F(CUBE):
        cos, sin = objects[k, COS], objects[k, SIN]
        largest = greater(abs(nz), greater(abs(cos * nx + sin * ny), abs(cos * ny - sin * nx)))
    return objects[k, ROUND] if largest < F(0.99) else F(-1.0)


@shared
def glimpse(scene, mask, x, y, z, dx, dy, dz):
    """Radiance met by a ray, roughly: no shadows on objects, and metal shows only ground."""
    objects, look = scene.objects, scene.look
    k, t = first_hit(objects, mask, x, y, z, dx, dy, dz, hit_ground(x, y, z, dx, dy, dz))
    x, y, z = x + t * dx, y + t * dy, z + t * dz
    red, green, blue = F(1.0), F(1.0), F(1.0)
    if k >= 0:
        nx, ny, nz = object_normal(objects, k, x, y, z)
        if objects[k, METAL] < F(0.5):
            r, g, b = matte_light(scene.lights, x, y, z, nx, ny, nz)
            p, q, s = indirect_on_object(objects, k, scene.indirect, x, y, z, nx, ny, nz)
            return objects[k, RED] * (r + p), objects[k, GREEN] * (g + q), objects[k, BLUE] * (b + s)
        red, green, blue = metal_color(objects, look, k)
        twice = F(2.0) * (nx * dx + ny * dy + nz * dz)
        dx, dy, dz = dx - twice * nx, dy - twice * ny, dz - twice * nz
        t = hit_ground(x, y, z, dx, dy, dz)
        x, y, z = x + t * dx, y + t * dy, z + t * dz
    if t >= FAR:
        return red * look[appearance.SKY_RED], green * look[appearance.SKY_GREEN], blue * look[appearance.SKY_BLUE]
    r, g, b = ground_radiance(scene, x, y, z)
    return red * r, green * g, blue * b


@shared
def broad_lobe(scene, k, x, y, z, nx, ny, nz, dx, dy, dz, frame, dice, rays):
    """Everything metal's broad lobe gathers: the lamps, and what a few rays meet."""
    look = scene.look
    alpha = look[appearance.BROAD_ROUGHNESS] * look[appearance.BROAD_ROUGHNESS]
    along, across = alpha * (F(1.0) - ANISOTROPY), alpha / (F(1.0) - ANISOTROPY)
    key, sample, samples = dice
    mask = without(everything(scene.count), k)
    r, g, b = F(0.0), F(0.0), F(0.0)
    for i in range(rays):
        u, v = point((key, sample * rays + i, samples * rays), 30)
        ex, ey, ez, weight = mirror_ray(dx, dy, dz, nx, ny, nz, frame, along, across, u, v)
        if weight > F(0.0):
            p, q, s = glimpse(scene, mask, x, y, z, ex, ey, ez)
            r, g, b = r + weight * p, g + weight * q, b + weight * s
    share = F(1.0) / F(rays)
    p, q, s = lamp_gloss(scene, k, x, y, z, nx, ny, nz, dx, dy, dz, frame, along, across, dice, False)
    return r * share + p, g * share + q, b * share + s
