"""Names of colours, and which colour became which."""

from __future__ import annotations

import colorsys

import numpy as np
import numpy.typing as npt

Colour = tuple[int, int, int]

_HUES = (
    (14, "red"),
    (40, "orange"),
    (68, "yellow"),
    (165, "green"),
    (195, "cyan"),
    (255, "blue"),
    (290, "purple"),
    (340, "pink"),
    (361, "red"),
)


def name_of(colour: Colour) -> str:
    """An everyday name: grey, dark blue, light green."""
    red, green, blue = (level / 255 for level in colour)
    hue, lightness, _ = colorsys.rgb_to_hls(red, green, blue)
    spread = max(red, green, blue) - min(red, green, blue)
    if spread < 0.06 or (spread < 0.1 and lightness > 0.85) or lightness < 0.06 or lightness > 0.98:
        return _grey(lightness)
    degrees = hue * 360
    name = next(name for limit, name in _HUES if degrees < limit)
    if name in ("orange", "red") and lightness < 0.36 and spread < 0.62 and 14 <= degrees < 50:
        return "brown"
    if name == "red" and lightness > 0.68:
        name = "pink"
        return name if lightness < 0.85 else "light pink"
    if spread < 0.16 and 0.2 < lightness < 0.85:
        return f"greyish {name}"
    if lightness < 0.27:
        return f"dark {name}"
    return f"light {name}" if lightness > 0.76 else name


def _grey(lightness: float) -> str:
    for limit, name in ((0.09, "black"), (0.35, "dark grey"), (0.66, "grey"), (0.955, "light grey")):
        if lightness < limit:
            return name
    return "white"


def change_of(before: Colour, after: Colour) -> tuple[str, str]:
    """Names of both colours that tell them apart; where one name fits both, with their numbers."""
    old, new = name_of(before), name_of(after)
    if old == new:
        old, new = f"{old} ({_number(before)})", f"{new} ({_number(after)})"
    return old, new


def _number(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def pack(rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """One integer a pixel."""
    wide = rgb.astype(np.uint32)
    return (wide[..., 0] << np.uint32(16)) | (wide[..., 1] << np.uint32(8)) | wide[..., 2]


def unpack(word: int) -> Colour:
    """Red, green and blue of a packed pixel."""
    return (int(word) >> 16) & 255, (int(word) >> 8) & 255, int(word) & 255


def most_common(words: npt.NDArray[np.uint32]) -> tuple[int, float]:
    """The most frequent packed colour and its share."""
    values, counts = np.unique(words, return_counts=True)
    best = int(counts.argmax())
    return int(values[best]), float(counts[best] / words.size)
