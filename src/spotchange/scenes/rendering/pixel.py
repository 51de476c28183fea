"""The work items of an image: one pixel, one sample of a pixel, one object's count of pixels."""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared
from spotchange.scene import AFTER
from spotchange.scenes import appearance
from spotchange.scenes.rendering.frame import scene_of
from spotchange.scenes.rendering.geometry import (
    BOUND,
    FAR,
    HALF,
    METAL,
    SLOT,
    X,
    Y,
    blocked,
    everything,
    first_hit,
    hit_ground,
    hit_object,
    objects_near,
    without,
)
from spotchange.scenes.rendering.indirect import ground_radiance
from spotchange.scenes.rendering.sampling import pixel_key, point
from spotchange.scenes.rendering.shading import sample_color, to_srgb

F = np.float32

ACROSS = F(32.0 / 35.0 / 2.0)  # tangent of half the view's width: a 35 mm lens on a 32 mm sensor
DOWN = F(32.0 / 35.0 / 2.0 * 2.0 / 3.0)  # images cover a 3:2 view whatever their pixel grid


@shared
def camera_frame(x, y, z):
    """Right, up and forward of a camera at (x, y, z) that looks at the origin with z up."""
    far = math.sqrt(x * x + y * y + z * z)
    fx, fy, fz = -x / far, -y / far, -z / far
    flat = math.sqrt(fx * fx + fy * fy)
    rx, ry = fy / flat, -fx / flat
    ux, uy, uz = ry * fz, -rx * fz, rx * fy - ry * fx
    return rx, ry, F(0.0), ux, uy, uz, fx, fy, fz


@shared
def pixel_ray(frame, column, row, width, height):
    """Unit direction through the point (column, row) of the image, in pixels from its upper left corner."""
    rx, ry, rz, ux, uy, uz, fx, fy, fz = frame
    a = (F(2.0) * column / F(width) - F(1.0)) * ACROSS
    b = (F(1.0) - F(2.0) * row / F(height)) * DOWN
    dx = fx + a * rx + b * ux
    dy = fy + a * ry + b * uy
    dz = fz + a * rz + b * uz
    scale = F(1.0) / math.sqrt(dx * dx + dy * dy + dz * dz)
    return dx * scale, dy * scale, dz * scale


SAMPLES_AT_ONCE = 4  # taken before anything is decided about a pixel
AGREE = F(0.008)  # the spread of the samples, as a share of their sum, that ends a pixel


@shared
def spread(u):
    """Offset from the pixel's centre: a tent as wide as Blender's Blackman-Harris filter of 1.5 pixels."""
    if u < F(0.5):
        return math.sqrt(F(2.0) * u) * F(0.5)
    return F(1.0) - math.sqrt(F(2.0) - F(2.0) * u) * F(0.5)


@shared
def view_at(views, p):
    """Which image stands at place p of those asked for; two bits each, so no array has to be sent."""
    return (views >> (2 * p)) & 3


@shared
def version_of(view):
    """Which version of the scene an image shows."""
    return 1 if view == AFTER else 0


@shared
def view_of(tables, s, view):
    """Camera position and frame of an image."""
    x, y, z = tables.camera[s, view, 0], tables.camera[s, view, 1], tables.camera[s, view, 2]
    return (x, y, z), camera_frame(x, y, z)


@shared
def pixel_range(aside, ahead, radius, tangent, pixels):
    """First and last + 1 of the pixels along one axis that a ball may cover, given its centre across and ahead."""
    far = ahead * ahead - radius * radius
    if ahead <= radius or far < F(1e-3):  # the camera stands inside or beside it
        return 0, pixels
    turn = radius * math.sqrt(aside * aside + far)
    low, high = (aside * ahead - turn) / far, (aside * ahead + turn) / far
    scale = F(0.5) * F(pixels)
    first, last = int((low / tangent + F(1.0)) * scale) - 1, int((high / tangent + F(1.0)) * scale) + 2
    return lesser(greater(first, 0), pixels), lesser(greater(last, 0), pixels)


@shared
def pixels_shown(tables, s, view, k, width, height, enough):
    """At how many pixels' centres object k is seen; counting ends at `enough`."""
    (x, y, z), frame = view_of(tables, s, view)
    rx, ry, rz, ux, uy, uz, fx, fy, fz = frame
    version = version_of(view)
    objects = tables.objects[s, version]
    px, py, pz = objects[k, X] - x, objects[k, Y] - y, objects[k, HALF] - z
    ahead, radius = px * fx + py * fy + pz * fz, math.sqrt(objects[k, BOUND])
    left, right = pixel_range(px * rx + py * ry + pz * rz, ahead, radius, ACROSS, width)
    top, bottom = pixel_range(-(px * ux + py * uy + pz * uz), ahead, radius, DOWN, height)
    others = without(everything(tables.used[s, version]), k)
    found = 0
    for row in range(top, bottom):
        for column in range(left, right):
            dx, dy, dz = pixel_ray(frame, F(column) + F(0.5), F(row) + F(0.5), width, height)
            t = hit_object(objects, k, x, y, z, dx, dy, dz, FAR)
            if t < FAR and not blocked(objects, others, x, y, z, dx, dy, dz, t):
                found += 1
                if found >= enough:
                    return found
    return found


@shared
def glance(tables, s, view, row, column, width, height):
    """What a pixel may show: the mask of objects near it, and the one at its centre or -1."""
    (x, y, z), frame = view_of(tables, s, view)
    version = version_of(view)
    objects = tables.objects[s, version]
    dx, dy, dz = pixel_ray(frame, F(column) + F(0.5), F(row) + F(0.5), width, height)
    around = F(1.6) * greater(ACROSS / F(width), DOWN / F(height))
    mask = objects_near(objects, tables.used[s, version], x, y, z, dx, dy, dz, around)
    k, _ = first_hit(objects, mask, x, y, z, dx, dy, dz, FAR)
    return mask, k


@shared
def is_metallic(objects, mask, k):
    """Whether a pixel will follow mirrors: by the object at its centre, else by those its edges may show."""
    if k >= 0:
        return objects[k, METAL] > F(0.5)
    other = 0
    while mask != 0:
        if mask & 1 and objects[other, METAL] > F(0.5):
            return True
        mask >>= 1
        other += 1
    return False


@shared
def open_ground(tables, s, view, row, column, width, height):
    """Levels of a pixel with no object near: the ground's shadows are smooth, so its centre tells it."""
    (x, y, z), frame = view_of(tables, s, view)
    scene = scene_of(tables, s, version_of(view))
    dx, dy, dz = pixel_ray(frame, F(column) + F(0.5), F(row) + F(0.5), width, height)
    t = hit_ground(x, y, z, dx, dy, dz)
    if t >= FAR:
        color = scene.look[appearance.SKY_RED], scene.look[appearance.SKY_GREEN], scene.look[appearance.SKY_BLUE]
    else:
        color = ground_radiance(scene, x + t * dx, y + t * dy, z + t * dz)
    return to_levels(color, scene.look[appearance.EXPOSURE])


@shared
def pixel_sample(tables, s, view, row, column, width, height, mask, sample, effort):
    """Linear colour of one sample of a pixel; effort is (samples, bounces, broad rays a sample)."""
    samples, bounces, rays = effort
    (x, y, z), frame = view_of(tables, s, view)
    dice = (pixel_key(tables.scene_id[s], view, row * width + column), sample, samples)
    u, v = point(dice, 0)
    dx, dy, dz = pixel_ray(frame, F(column) + spread(u), F(row) + spread(v), width, height)
    scene = scene_of(tables, s, version_of(view))
    return sample_color(scene, mask, x, y, z, dx, dy, dz, dice, (bounces, rays, F(2.0) * ACROSS / F(width)))


@shared
def taken_in(total, color):
    """A pixel's total so far (red, green, blue, darkest, brightest) with one more sample."""
    r, g, b, low, high = total
    light = color[0] + color[1] + color[2]
    return r + color[0], g + color[1], b + color[2], lesser(low, light), greater(high, light)


@shared
def agrees(total):
    """Whether samples differ so little that more would not change the pixel: most of what is smooth."""
    r, g, b, low, high = total
    return high - low < AGREE * (r + g + b)


@shared
def to_levels(color, scale):
    """sRGB levels of a linear colour."""
    r, g, b = color
    return to_srgb(r * scale), to_srgb(g * scale), to_srgb(b * scale)


@shared
def draw_pixel(tables, s, view, row, column, width, height, effort):
    """Levels of one pixel and the slot + 1 of the object at its centre; effort is as for `pixel_sample`."""
    mask, k = glance(tables, s, view, row, column, width, height)
    if mask == 0:
        return open_ground(tables, s, view, row, column, width, height), 0
    total = (F(0.0), F(0.0), F(0.0), F(1e9), F(0.0))
    taken = 0
    while taken < effort[0]:
        for sample in range(taken, taken + SAMPLES_AT_ONCE):
            color = pixel_sample(tables, s, view, row, column, width, height, mask, sample, effort)
            total = taken_in(total, color)
        taken += SAMPLES_AT_ONCE
        if agrees(total):
            break
    scale = tables.look[s, appearance.EXPOSURE] / F(taken)
    thing = int(tables.objects[s, version_of(view), k, SLOT]) + 1 if k >= 0 else 0
    return to_levels((total[0], total[1], total[2]), scale), thing
