"""Names of colours: the eleven basic words, and "multicolored" where none of them covers most of a thing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

COLOURS = (
    "black",
    "white",
    "gray",
    "red",
    "orange",
    "yellow",
    "green",
    "blue",
    "purple",
    "pink",
    "brown",
    "multicolored",
)
# One typical value of each colour that a thing can be painted in.
PAINTS = {
    "black": (28, 28, 30),
    "white": (240, 240, 238),
    "gray": (132, 132, 134),
    "red": (205, 32, 38),
    "orange": (240, 130, 25),
    "yellow": (240, 208, 40),
    "green": (48, 150, 62),
    "blue": (38, 92, 200),
    "purple": (125, 58, 170),
    "pink": (242, 128, 178),
    "brown": (122, 78, 44),
}
_MOST = 0.55  # share of the pixels that gives a thing its colour


def name_of_pixels(rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """(..., 3) bytes to places in `COLOURS`, each pixel by itself, by hue, saturation and value."""
    scaled = rgb.astype(np.float32) / 255
    high, low = scaled.max(-1), scaled.min(-1)
    span = np.maximum(high - low, 1e-6)
    saturation = (high - low) / np.maximum(high, 1e-6)
    red, green, blue = scaled[..., 0], scaled[..., 1], scaled[..., 2]
    below_green = np.where(high == green, (blue - red) / span + 2, (red - green) / span + 4)
    hue = np.where(high == red, (green - blue) / span % 6, below_green) * 60
    names = np.select(
        [
            high < 0.16,
            (saturation < 0.16) & (high > 0.78),
            (saturation < 0.16) & (high < 0.28),
            saturation < 0.16,
            ((hue < 50) | (hue > 345)) & (high < 0.62) & (saturation > 0.2) & (hue > 12) & (hue < 50),
            (hue < 14) | (hue >= 345),
            hue < 42,
            hue < 68,
            hue < 165,
            hue < 258,
            hue < 295,
        ],
        [
            COLOURS.index(name)
            for name in (
                "black",
                "white",
                "black",
                "gray",
                "brown",
                "red",
                "orange",
                "yellow",
                "green",
                "blue",
                "purple",
            )
        ],
        COLOURS.index("pink"),
    )
    return np.asarray(names, np.int64)


def main_colour(rgba: npt.NDArray[np.uint8]) -> str:
    """The colour word for a cut-out (height, width, 4)."""
    seen = rgba[rgba[..., 3] > 128][:, :3]
    if not len(seen):
        return "multicolored"
    shares = np.bincount(name_of_pixels(seen), minlength=len(COLOURS)) / len(seen)
    best = int(shares.argmax())
    return COLOURS[best] if shares[best] >= _MOST else "multicolored"
