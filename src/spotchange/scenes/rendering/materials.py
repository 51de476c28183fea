"""Rubber and metal: how much light leaves a surface towards the eye, and where a mirror ray goes.

All values are times pi, matching intensities that were divided by pi (see lighting).
"""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import greater, lesser, shared
from spotchange.scenes.rendering.lights import PI

F = np.float32

FILM_COLOR = F(0.8)
FILM_ALPHA = F(0.59 * 0.59)
VELVET = F(1.0 / (0.6 * 0.6))


@shared
def fresnel(cosine, index):
    """Share of light a clear film of a refractive index throws back."""
    c = lesser(abs(cosine), F(1.0))
    g = math.sqrt(index * index - F(1.0) + c * c)
    a = (g - c) / (g + c)
    b = (c * (g + c) - F(1.0)) / (c * (g - c) + F(1.0))
    return F(0.5) * a * a * (F(1.0) + b * b)


@shared
def velvet(cos_in, cos_out, cos_half, half_out):
    """Sheen of fine upright fibres (Ashikhmin), cosine included."""
    sine = greater(F(1.0) - cos_half * cos_half, F(1e-4))
    ratio = F(2.0) * cos_half / greater(half_out, F(1e-4))
    shade = lesser(F(1.0), lesser(ratio * cos_out, ratio * cos_in))
    fibres = math.exp(-VELVET * cos_half * cos_half / sine) * VELVET / (sine * sine)
    return F(0.25) * fibres * shade / greater(cos_out, F(1e-3))


@shared
def smith(cosine, alpha):
    """How much of a rough surface of slope alpha is seen from a direction."""
    square = greater(cosine * cosine, F(1e-6))
    return F(2.0) / (F(1.0) + math.sqrt(F(1.0) + alpha * alpha * (F(1.0) - square) / square))


@shared
def beckmann(cos_in, cos_out, cos_half, alpha):
    """Gloss of a rough film, cosine included."""
    square = greater(cos_half * cos_half, F(1e-4))
    slope = (F(1.0) - square) / (square * alpha * alpha)
    facets = math.exp(-slope) / (alpha * alpha * square * square)
    return facets * smith(cos_in, alpha) * smith(cos_out, alpha) / (F(4.0) * greater(cos_out, F(1e-3)))


@shared
def ggx(cos_in, cos_out, hx, hy, hz, along, across):
    """Gloss of rough metal of slopes `along` and `across` its tangent for a half vector in that frame, with cosine."""
    a, b = hx / along, hy / across
    d = a * a + b * b + hz * hz
    facets = F(1.0) / greater(along * across * d * d, F(1e-9))
    alpha = math.sqrt(along * across)
    return facets * smith(cos_in, alpha) * smith(cos_out, alpha) / (F(4.0) * greater(cos_out, F(1e-3)))


@shared
def half_way(lx, ly, lz, vx, vy, vz, nx, ny, nz):
    """Cosines of the half vector with the normal and with the view."""
    hx, hy, hz = lx + vx, ly + vy, lz + vz
    scale = F(1.0) / math.sqrt(hx * hx + hy * hy + hz * hz + F(1e-12))
    cos_half = (hx * nx + hy * ny + hz * nz) * scale
    return cos_half, (hx * vx + hy * vy + hz * vz) * scale


@shared
def mirror_ray(dx, dy, dz, nx, ny, nz, frame, along, across, u, v):
    """A reflected direction drawn from a GGX lobe (visible normals, Heitz 2018) and its weight."""
    tx, ty, tz, bx, by, bz = frame
    ex = -(dx * tx + dy * ty + dz * tz)
    ey = -(dx * bx + dy * by + dz * bz)
    ez = greater(-(dx * nx + dy * ny + dz * nz), F(1e-3))
    sx, sy, sz = along * ex, across * ey, ez
    scale = F(1.0) / math.sqrt(sx * sx + sy * sy + sz * sz)
    sx, sy, sz = sx * scale, sy * scale, sz * scale
    flat = sx * sx + sy * sy
    if flat > F(1e-10):
        scale = F(1.0) / math.sqrt(flat)
        ax, ay = -sy * scale, sx * scale
    else:
        ax, ay = F(1.0), F(0.0)
    cx, cy, cz = -sz * ay, sz * ax, sx * ay - sy * ax
    radius, angle = math.sqrt(u), F(2.0) * PI * v
    p, q = radius * math.cos(angle), radius * math.sin(angle)
    lean = F(0.5) * (F(1.0) + sz)
    q = (F(1.0) - lean) * math.sqrt(greater(F(1.0) - p * p, F(0.0))) + lean * q
    up = math.sqrt(greater(F(1.0) - p * p - q * q, F(0.0)))
    hx = along * (p * ax + q * cx + up * sx)
    hy = across * (p * ay + q * cy + up * sy)
    hz = greater(q * cz + up * sz, F(1e-6))
    scale = F(1.0) / math.sqrt(hx * hx + hy * hy + hz * hz)
    hx, hy, hz = hx * scale, hy * scale, hz * scale
    dot = F(2.0) * (ex * hx + ey * hy + ez * hz)
    lx, ly, lz = dot * hx - ex, dot * hy - ey, dot * hz - ez
    weight = smith(lz, math.sqrt(along * across)) if lz > F(0.0) else F(0.0)
    return (
        lx * tx + ly * bx + lz * nx,
        lx * ty + ly * by + lz * ny,
        lx * tz + ly * bz + lz * nz,
        weight,
    )
