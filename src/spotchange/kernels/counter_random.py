"""Random numbers by address: every draw is a hash of (seed, scene, stream, index), so no draw depends on another.

That is what makes a scene the same whatever the batch size, the worker or the device: there is no generator state
to carry along. The hash is SplitMix64's finaliser, chained once per part of the address. The functions run on the
CPU and inside CUDA kernels.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _40 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(40)
_TWO_TO_MINUS_24 = 1.0 / (1 << 24)


@njit
def mix(bits):
    """Scramble 64 bits so that every input bit reaches every output bit."""
    bits = (bits ^ (bits >> _30)) * _MIX_1
    bits = (bits ^ (bits >> _27)) * _MIX_2
    return bits ^ (bits >> _31)


@njit
def stream_key(seed, scene, stream):
    """The key of one stream of a scene: pass it to `uniform` and `below`."""
    key = mix(np.uint64(seed) + _STEP)
    key = mix((key ^ np.uint64(scene)) + _STEP)
    return mix((key ^ np.uint64(stream)) + _STEP)


@njit
def uniform(key, index):
    """A float64 in [0, 1) with 24 random bits, so that short sums and products with it are exact."""
    bits = mix(key + np.uint64(index) * _STEP)
    return np.float64(np.int64(bits >> _40)) * _TWO_TO_MINUS_24


@njit
def signed(key, index):
    """A float64 in [-1, 1), likewise exact."""
    return 2.0 * uniform(key, index) - 1.0


@njit
def below(key, index, limit):
    """An integer from 0 to `limit` - 1."""
    return np.int64(uniform(key, index) * limit)
