"""The camera of the benchmark: where it stands, what it sees, and how a point falls on the picture."""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import shared

F = np.float32

ACROSS = F(32.0 / 35.0 / 2.0)  # tangent of half the view's width: a 35 mm lens on a 32 mm sensor
DOWN = F(32.0 / 35.0 / 2.0 * 2.0 / 3.0)  # pictures cover a 3:2 view whatever their pixel grid


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
    """Unit direction through the point (column, row) of the picture, in pixels from its upper left corner."""
    rx, ry, rz, ux, uy, uz, fx, fy, fz = frame
    a = (F(2.0) * column / F(width) - F(1.0)) * ACROSS
    b = (F(1.0) - F(2.0) * row / F(height)) * DOWN
    dx = fx + a * rx + b * ux
    dy = fy + a * ry + b * uy
    dz = fz + a * rz + b * uz
    scale = F(1.0) / math.sqrt(dx * dx + dy * dy + dz * dz)
    return dx * scale, dy * scale, dz * scale
