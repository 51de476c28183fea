"""Random numbers of the renderer: a function of scene, image, pixel and sample, the same on every device.

Points of one (0, 2)-sequence, scrambled per pixel and purpose: sets of 4, 16 or 64 consecutive samples cover the
unit square evenly, and any two purposes (lens, lamps, lobes) pair their points at random.
"""

from __future__ import annotations

import numpy as np

from spotchange.kernels.compile import shared

F = np.float32
WORD = 0xFFFFFFFF
UNIT = F(2.0**-24)


def _sequence(points: int) -> np.ndarray:
    """The first points of the Sobol sequence in two dimensions, as 32-bit fractions."""
    table = np.zeros((points, 2), dtype=np.int64)
    columns = [1 << 31]
    for _ in range(31):
        columns.append(columns[-1] ^ (columns[-1] >> 1))
    for i in range(points):
        for bit in range(32):
            if i >> bit & 1:
                table[i, 0] ^= 1 << (31 - bit)
                table[i, 1] ^= columns[bit]
    return table


POINTS = 64
TABLE = _sequence(POINTS)


@shared
def scramble(x):
    """Mix 32 bits well."""
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & WORD
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & WORD
    return x ^ (x >> 16)


@shared
def pixel_key(scene_id, view, pixel):
    """One number for a pixel of an image of a scene."""
    scene = scramble((scene_id & WORD) ^ scramble((scene_id >> 32) & WORD))
    return scramble((scene + view * 0x3C6EF35F + scramble(pixel)) & WORD)


@shared
def point(dice, purpose):
    """A point of the unit square for one purpose of a sample; dice is (pixel key, sample, samples: 4, 16 or 64)."""
    key, sample, samples = dice
    h = scramble((key + purpose * 0x9E3779B) & WORD)
    index = sample ^ (h & (samples - 1))
    g = scramble(h ^ 0x5BD1E995)
    return F((TABLE[index, 0] ^ h) >> 8) * UNIT, F((TABLE[index, 1] ^ g) >> 8) * UNIT
