"""What domain randomisation may change about an image: one row of numbers a scene, drawn from counted uniforms.

The neutral row is the benchmark's own look. `draw` is plain arithmetic on whole arrays, so it works on numpy arrays
and torch tensors alike and a scene's look depends on its uniforms only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spotchange.config.scenes import LookRandomness

# name, neutral value, spread; "x" spreads multiply by up to (1 + spread) either way, "+" spreads add.
_COLUMNS = (
    ("key_power", 1.0, "x", 0.6, "lamps"),
    ("back_power", 1.0, "x", 0.6, "lamps"),
    ("fill_power", 1.0, "x", 0.6, "lamps"),
    ("sun_power", 1.0, "x", 0.6, "sun"),
    ("key_warmth", 0.0, "+", 0.15, "lamps"),
    ("back_warmth", 0.0, "+", 0.15, "lamps"),
    ("fill_warmth", 0.0, "+", 0.15, "lamps"),
    ("sun_warmth", 0.0, "+", 0.15, "sun"),
    ("sky_red", 0.0, "up", 0.05, "sky"),
    ("sky_green", 0.0, "up", 0.05, "sky"),
    ("sky_blue", 0.0, "up", 0.05, "sky"),
    ("ground_red", 0.8, "x", 0.15, "ground"),
    ("ground_green", 0.8, "x", 0.15, "ground"),
    ("ground_blue", 0.8, "x", 0.15, "ground"),
    ("sharp_share", 0.6, "+", 0.3, "materials"),
    ("sharp_roughness", 0.1, "x", 0.8, "materials"),
    ("broad_roughness", 0.447, "x", 0.3, "materials"),
    ("metal_tint", 1.0, "down", 0.3, "materials"),
    ("metal_diffuse", 0.0, "up", 0.3, "materials"),
    ("rubber_gloss", 1.0, "x", 1.0, "materials"),
    ("rubber_sheen", 1.0, "x", 1.0, "materials"),
    ("saturation", 1.0, "x", 0.2, "materials"),
    ("exposure", 1.0, "x", 0.25, "exposure"),
)
NAMES = tuple(column[0] for column in _COLUMNS)
SIZE = len(_COLUMNS)
NEUTRAL = np.array([column[1] for column in _COLUMNS], dtype=np.float32)
(
    KEY_POWER,
    BACK_POWER,
    FILL_POWER,
    SUN_POWER,
    KEY_WARMTH,
    BACK_WARMTH,
    FILL_WARMTH,
    SUN_WARMTH,
    SKY_RED,
    SKY_GREEN,
    SKY_BLUE,
    GROUND_RED,
    GROUND_GREEN,
    GROUND_BLUE,
    SHARP_SHARE,
    SHARP_ROUGHNESS,
    BROAD_ROUGHNESS,
    METAL_TINT,
    METAL_DIFFUSE,
    RUBBER_GLOSS,
    RUBBER_SHEEN,
    SATURATION,
    EXPOSURE,
) = range(SIZE)


def neutral(scenes: int) -> np.ndarray:
    """The benchmark's look for every scene."""
    return np.tile(NEUTRAL, (scenes, 1))


def draw(uniforms: Any, settings: LookRandomness) -> Any:
    """Looks (S, SIZE) from uniforms in [0, 1) of the same shape, numpy or torch, float32."""
    columns = []
    for index, (_, middle, kind, spread, part) in enumerate(_COLUMNS):
        reach = spread * getattr(settings, part)
        u = uniforms[:, index]
        if kind == "x":
            columns.append(middle * (1.0 + reach) ** (2.0 * u - 1.0))
        elif kind == "+":
            columns.append(middle + reach * (2.0 * u - 1.0))
        else:
            columns.append(middle + (reach if kind == "up" else -reach) * u)
    if isinstance(uniforms, np.ndarray):
        return np.stack(columns, axis=1).astype(np.float32)
    import torch

    return torch.stack(columns, dim=1).float()
