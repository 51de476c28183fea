"""From an image as it is stored to one as it is seen: turned upright, opaque over white, RGB of 8 bits."""

from __future__ import annotations

import numpy as np
from PIL import Image

STRIP = 4_000_000  # pixels worked on at a time: a large image is not held once more as floats
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # of EXIF's orientation


def upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF orientation says."""
    # Not ImageOps.exif_transpose, which also writes the metadata anew and fails where they are damaged.
    turn = _TURNS.get(_orientation(image))
    return image if turn is None else image.transpose(turn)


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height of the image once it is upright."""
    width, height = image.size
    lying = image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)  # Pillow turns TIFF sizes itself
    return (height, width) if lying else (width, height)


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB of 8 bits, transparency over white."""
    if image.mode.startswith("I") or image.mode == "F":
        return _deep_grey_to_rgb(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:
        # Damaged metadata of a sound image, in any of the ways EXIF can be damaged: show it as it is stored.
        return 1


def _deep_grey_to_rgb(image: Image.Image) -> Image.Image:
    """Grey of more than 8 bits: Pillow's own conversion clips at 255, which turns most of such an image white."""
    stored = np.asarray(image)
    transparent = image.info.get("transparency")
    if image.mode == "F":
        scale = 255.0 if stored.max() <= 1 else 1.0
    else:
        # 32-bit integers are nearly always 16-bit data in a wider container.
        scale = 1 / 257 if stored.max() <= 65535 else 1 / 2**24
    grey = np.empty(stored.shape, np.uint8)
    rows = max(1, STRIP // max(1, stored.shape[1]))
    for top in range(0, len(stored), rows):
        values = stored[top : top + rows]
        strip = np.nan_to_num(values.astype(np.float64) * scale).clip(0, 255).round().astype(np.uint8)
        if isinstance(transparent, int):
            strip[values == transparent] = 255
        grey[top : top + rows] = strip
    return Image.fromarray(grey).convert("RGB")
