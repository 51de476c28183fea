"""The colour of one sample of a pixel: follow a ray from the camera, by way of mirrors, to something matte."""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared
from spotchange.scenes import appearance
from spotchange.scenes.rendering.geometry import (
    BLUE,
    FAR,
    GREEN,
    METAL,
    RED,
    everything,
    first_hit,
    hit_ground,
    object_normal,
    without,
)
from spotchange.scenes.rendering.indirect import ground_radiance, indirect_on_object
from spotchange.scenes.rendering.lights import INTENSITY, LIGHTS, lamps_in_mirror, light_from, sees_light
from spotchange.scenes.rendering.materials import (
    FILM_ALPHA,
    FILM_COLOR,
    beckmann,
    fresnel,
    half_way,
    mirror_ray,
    velvet,
)
from spotchange.scenes.rendering.metal import broad_lobe, brushed_frame, lamp_gloss, metal_color, rounding_at
from spotchange.scenes.rendering.sampling import point

F = np.float32

LAST_MIRROR = F(0.10)  # radiance that stands for what a ray would still meet when its bounces are used up
SHEEN_INDEX, FILM_INDEX = F(1.4), F(1.2)


@shared
def shade_rubber(scene, k, x, y, z, dx, dy, dz, dice):
    """Rubber: diffuse under sheen under a thin rough film."""
    lights, look, objects = scene.lights, scene.look, scene.objects
    nx, ny, nz = object_normal(objects, k, x, y, z)
    cos_out = greater(-(nx * dx + ny * dy + nz * dz), F(0.02))
    sheen = fresnel(cos_out, SHEEN_INDEX) * look[appearance.RUBBER_SHEEN]
    film = lesser(fresnel(cos_out, FILM_INDEX) * look[appearance.RUBBER_GLOSS], F(1.0))
    base = F(1.0) - film
    r, g, b, wr, wg, wb = F(0.0), F(0.0), F(0.0), F(0.0), F(0.0), F(0.0)
    for lamp in range(LIGHTS):
        lx, ly, lz, strength = light_from(lights, lamp, x, y, z)
        cos_in = nx * lx + ny * ly + nz * lz
        if cos_in > F(0.0) and strength > F(0.0):
            u, v = point(dice, 1 + lamp)
            strength *= sees_light(scene, lamp, scene.occluders[k, lamp], x, y, z, u, v)
            cos_half, half_out = half_way(lx, ly, lz, -dx, -dy, -dz, nx, ny, nz)
            matte = strength * ((F(1.0) - sheen) * cos_in + sheen * velvet(cos_in, cos_out, cos_half, half_out))
            gloss = strength * beckmann(cos_in, cos_out, cos_half, FILM_ALPHA)
            r, wr = r + matte * lights[lamp, INTENSITY], wr + gloss * lights[lamp, INTENSITY]
            g, wg = g + matte * lights[lamp, INTENSITY + 1], wg + gloss * lights[lamp, INTENSITY + 1]
            b, wb = b + matte * lights[lamp, INTENSITY + 2], wb + gloss * lights[lamp, INTENSITY + 2]
    p, q, s = indirect_on_object(objects, k, scene.indirect, x, y, z, nx, ny, nz)
    # The film mirrors the ground where its mirror direction points down; the world above is black.
    twice = F(2.0) * (nx * dx + ny * dy + nz * dz)
    down = dz - twice * nz
    if down < F(-0.02):
        t = lesser(-z / down, F(20.0))
        er, eg, eb = ground_radiance(scene, x + t * (dx - twice * nx), y + t * (dy - twice * ny), F(0.0))
        fade = lesser(-down * F(4.0), F(1.0))
        wr, wg, wb = wr + er * fade, wg + eg * fade, wb + eb * fade
    film *= FILM_COLOR
    return (
        objects[k, RED] * base * (r + p) + film * wr,
        objects[k, GREEN] * base * (g + q) + film * wg,
        objects[k, BLUE] * base * (b + s) + film * wb,
    )


@shared
def sample_color(scene, mask, ox, oy, oz, dx, dy, dz, dice, effort):
    """Linear colour along one ray from the camera that may meet only the masked objects first.

    Effort is (bounces, broad rays a sample, width of a pixel).
    """
    look, objects = scene.look, scene.objects
    bounces, broad_rays, pixel_width = effort
    r, g, b = F(0.0), F(0.0), F(0.0)
    tr, tg, tb = F(1.0), F(1.0), F(1.0)
    lamps_show = False
    for bounce in range(bounces + 1):
        k, t = first_hit(objects, mask, ox, oy, oz, dx, dy, dz, hit_ground(ox, oy, oz, dx, dy, dz))
        if lamps_show:
            cr, cg, cb = lamps_in_mirror(scene.lights, ox, oy, oz, dx, dy, dz, t)
            r, g, b = r + tr * cr, g + tg * cg, b + tb * cb
        x, y, z = ox + t * dx, oy + t * dy, oz + t * dz
        if k < 0:
            if t >= FAR:
                cr, cg, cb = look[appearance.SKY_RED], look[appearance.SKY_GREEN], look[appearance.SKY_BLUE]
            else:
                cr, cg, cb = ground_radiance(scene, x, y, z)
            return r + tr * cr, g + tg * cg, b + tb * cb
        matte = F(1.0) - objects[k, METAL] * (F(1.0) - look[appearance.METAL_DIFFUSE])
        if matte > F(0.0):
            cr, cg, cb = shade_rubber(scene, k, x, y, z, dx, dy, dz, dice)
            r, g, b = r + tr * matte * cr, g + tg * matte * cg, b + tb * matte * cb
            if matte >= F(1.0):
                return r, g, b
        nx, ny, nz = object_normal(objects, k, x, y, z)
        cr, cg, cb = metal_color(objects, look, k)
        tr, tg, tb = tr * cr * (F(1.0) - matte), tg * cg * (F(1.0) - matte), tb * cb * (F(1.0) - matte)
        if bounce == bounces:
            return r + tr * LAST_MIRROR, g + tg * LAST_MIRROR, b + tb * LAST_MIRROR
        share, alpha = look[appearance.SHARP_SHARE], look[appearance.SHARP_ROUGHNESS] * look[appearance.SHARP_ROUGHNESS]
        lamps_show = bounce > 0
        frame = brushed_frame(objects, k, x, y, nx, ny, nz)
        if bounce == 0:
            rest = F(1.0) - share
            cr, cg, cb = broad_lobe(scene, k, x, y, z, nx, ny, nz, dx, dy, dz, frame, dice, broad_rays)
            r, g, b = r + tr * rest * cr, g + tg * rest * cg, b + tb * rest * cb
            # Beyond the first mirror both lobes follow the sharp ray.
            tr, tg, tb = tr * share, tg * share, tb * share
            # On a rounded edge a pixel sees a fan of directions: spread the lamps over it instead of hoping to hit one.
            bend = t * pixel_width / rounding_at(objects, k, nx, ny, nz)
            lobe = math.sqrt((alpha + bend * F(0.5)) * F(0.03)) if bend > F(0.0) else alpha
            cr, cg, cb = lamp_gloss(scene, k, x, y, z, nx, ny, nz, dx, dy, dz, frame, lobe, lobe, dice, bend <= F(0.0))
            r, g, b = r + tr * cr, g + tg * cg, b + tb * cb
        u, v = point(dice, 20 + bounce)
        dx, dy, dz, weight = mirror_ray(dx, dy, dz, nx, ny, nz, frame, alpha, alpha, u, v)
        if weight <= F(0.0):
            return r, g, b
        tr, tg, tb = tr * weight, tg * weight, tb * weight
        ox, oy, oz, mask = x, y, z, without(everything(scene.count), k)
    return r, g, b


@shared
def to_srgb(value):
    """Linear light to an sRGB level from 0 to 255."""
    v = lesser(greater(value, F(0.0)), F(1.0))
    v = F(12.92) * v if v <= F(0.0031308) else F(1.055) * math.exp(math.log(v) * F(1.0 / 2.4)) - F(0.055)
    return v * F(255.0) + F(0.5)
