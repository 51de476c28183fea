"""Reading images for comparison: every level that is stored, fast, and upright as `images.py` has it.

PNG of a plain kind goes through the Rust decoder of kornia (8-bit colour, the kind browsers write: a quarter of
spng's time) or through spng; everything else, and everything these refuse, goes through `images.py`, which also
words the errors. All give the same pixels.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.errors import ImageError
from spotchange.image_sources import ImageSource, plain_source
from spotchange.images import MAX_PIXELS, read_stored, size_problem
from spotchange.storage import as_place, is_address

Levels = npt.NDArray[Any]  # uint8 or uint16

LARGEST_PROFILE = 8 * 2**20  # bytes; what Pillow takes at most is of this order
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Chunks that do not change what Pillow shows: no orientation, no animation, no keyed transparency.
_PLAIN_CHUNKS = frozenset(
    (
        b"IHDR",
        b"PLTE",
        b"IDAT",
        b"IEND",
        b"sRGB",
        b"gAMA",
        b"cHRM",
        b"pHYs",
        b"sBIT",
        b"bKGD",
        b"tIME",
        b"hIST",
        b"cICP",
    )
)
_MODES = {2: "rgb", 6: "rgba"}  # PNG's numbers for colours without and with transparency
_TEXT_CHUNKS = frozenset((b"tEXt", b"zTXt", b"iTXt"))
_TEXTS_WITH_ORIENTATION = (b"XML:com.adobe.xmp", b"Raw profile type")


@dataclass(frozen=True, eq=False)
class Raster:
    """A decoded image: (height, width, 3 or 4), RGB or RGBA, uint8 or, where more is stored, uint16 RGBA."""

    stored: Levels
    profile: bytes | None = None
    """The embedded ICC profile. Levels are compared as stored."""

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.stored.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.stored.shape[1])

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.width, self.height

    @property
    def deep(self) -> bool:
        """Whether more than 8 bits a channel are stored."""
        return bool(self.stored.dtype == np.uint16)

    @cached_property
    def rgba(self) -> Levels:
        """(height, width, 4) at the stored depth."""
        return self.stored if self.stored.shape[2] == 4 else cv2.cvtColor(self.stored, cv2.COLOR_RGB2RGBA)

    @cached_property
    def transparent(self) -> bool:
        """Whether any pixel is not opaque."""
        if self.stored.shape[2] == 3:
            return False
        if self.deep:
            return bool(self.rgba[..., 3].min() < 65535)
        # One pass over whole pixels instead of every fourth byte: 255 remains if all are opaque.
        return bool(np.bitwise_and.reduce(self.rgba.view(np.uint32), axis=None).tobytes()[3] < 255)

    @cached_property
    def rgba8(self) -> npt.NDArray[np.uint8]:
        """(height, width, 4) at 8 bits."""
        return ((self.rgba.astype(np.uint32) + 128) // 257).astype(np.uint8) if self.deep else self.rgba

    @cached_property
    def rgb(self) -> npt.NDArray[np.uint8]:
        """(height, width, 3) at 8 bits, transparency over white: what a person sees."""
        if self.stored.shape[2] == 3:
            return self.stored
        if not self.transparent:
            return cv2.cvtColor(self.rgba8, cv2.COLOR_RGBA2RGB)  # type: ignore[return-value]
        layer = Image.fromarray(self.rgba8)
        return np.asarray(Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB"))

    def words(self, *, deep: bool = False) -> npt.NDArray[Any]:
        """(height, width) integers, equal where and only where the pixels are; clear pixels are all equal."""
        rgba = self.rgba
        if deep and not self.deep:
            rgba = rgba.astype(np.uint16) * np.uint16(257)
        if self.transparent:
            rgba = np.where(rgba[..., 3:] == 0, rgba.dtype.type(0), rgba)
        return np.ascontiguousarray(rgba).view(np.uint64 if rgba.dtype == np.uint16 else np.uint32)[..., 0]

    def levels_at(self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """(places, 4) from 0 to 255, fractions where 16 bits are stored."""
        levels = self.rgba[rows, columns].astype(np.float64)
        return levels / 257.0 if self.deep else levels


def read_raster(source: ImageSource | Raster | Any, *, max_pixels: int = MAX_PIXELS) -> Raster:
    """Read an image from whatever `image_sources` takes, or from an object with `pixels`.

    Raises:
        ImageError: one line that says what is wrong with the image.
    """
    if isinstance(source, Raster):
        return source
    if hasattr(source, "pixels"):
        encoded = getattr(source, "encoded", None)
        source = source.pixels if encoded is None else encoded
    source = plain_source(source)
    encoded = source if isinstance(source, bytes) else None
    if isinstance(source, str | os.PathLike) and (is_address(source) or os.path.isfile(source)):
        try:
            encoded = as_place(source).read_bytes()
        except OSError:  # said by `read_stored` below
            encoded = None
    plain = _read_png(encoded, max_pixels) if encoded is not None else None
    if plain is not None:
        return plain
    if isinstance(source, np.ndarray) and source.dtype == np.uint16:
        read_stored(source, max_pixels=max_pixels)  # for its errors; Pillow holds no 16-bit colour
        return Raster(_to_rgba(source))
    return _from_pillow(read_stored(source, max_pixels=max_pixels))


def read_rasters(before: Any, after: Any, *, max_pixels: int = MAX_PIXELS) -> tuple[Raster, Raster]:
    """Read both images; an error says which side it is about."""
    images: list[Raster] = []
    problems: list[str] = []
    for side, source in (("before", before), ("after", after)):
        try:
            images.append(read_raster(source, max_pixels=max_pixels))
        except ImageError as error:
            problems.append(f"{side}: {error.message}")
    if problems:
        raise ImageError("; ".join(problems))
    return images[0], images[1]


def _read_png(content: bytes, max_pixels: int) -> Raster | None:
    """A plain PNG through kornia or spng; None leaves it, with its errors, to Pillow."""
    if not content.startswith(_SIGNATURE):
        return None
    plain, profile = _scan_chunks(content, max_pixels)
    if not plain:
        return None
    bits, colours, interlaced = content[24], content[25], content[28]
    if bits == 8 and colours in _MODES and not interlaced:
        levels = _read_colours(content, _MODES[colours])
        if levels is not None:
            return Raster(levels, profile)
    try:
        import pyspng
    except ImportError:  # no wheel for every machine; Pillow reads the same, slower
        return None
    try:
        if bits < 16:
            return Raster(pyspng.load(content, format="RGBA"), profile)
        return Raster(_to_rgba(pyspng.load(content)), profile)
    except Exception:  # its own classes for every damage: Pillow says in words what is wrong
        return None


def _read_colours(content: bytes, mode: str) -> Levels | None:
    """8-bit RGB or RGBA; None where the decoder is not there or refuses the file."""
    try:
        from kornia_rs.io import decode_image_png_u8
    except ImportError:  # no wheel for every machine
        return None
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    try:
        levels: Levels = decode_image_png_u8(content, (height, width), mode)
    except Exception:  # of no class of its own: spng and Pillow have their say
        return None
    return levels


def _scan_chunks(content: bytes, max_pixels: int) -> tuple[bool, bytes | None]:
    """Whether all chunks are such that the stored pixels are the image, and the colour profile."""
    width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    start, profile = 8, None
    fits = size_problem(width, height, max_pixels=max_pixels) is None
    while fits and start + 8 <= len(content):
        length, name = int.from_bytes(content[start : start + 4], "big"), content[start + 4 : start + 8]
        if name == b"IEND":
            return True, profile
        if name == b"iCCP":
            try:
                packed = content[start + 8 : start + 8 + length].split(b"\0", 1)[1][1:]
                unpacking = zlib.decompressobj()
                profile = unpacking.decompress(packed, LARGEST_PROFILE)
            except (zlib.error, IndexError):
                return False, None
            if not unpacking.eof:  # or a few bytes could unpack to as many gigabytes
                return False, None
        elif name in _TEXT_CHUNKS:
            if content.startswith(_TEXTS_WITH_ORIENTATION, start + 8):
                return False, None
        elif name not in _PLAIN_CHUNKS:
            return False, None
        start += length + 12
    return False, None


def _from_pillow(image: Image.Image) -> Raster:
    profile = image.info.get("icc_profile")
    mode = image.mode
    if mode == "I" or mode == "F" or mode.startswith("I;16"):
        levels = np.asarray(image)
        transparent = image.info.get("transparency")
        grey = _to_sixteen_bits(levels.astype(np.float64), floats=mode == "F")
        rgba = _to_rgba(grey)
        if isinstance(transparent, int):
            rgba[levels == transparent, 3] = 0
        return Raster(rgba, profile)
    clear = mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info
    if mode == "RGB" and not clear:
        return Raster(np.asarray(image), profile)
    try:
        return Raster(np.array(image.convert("RGBA") if clear else image.convert("RGB").convert("RGBA")), profile)
    except (ValueError, OSError) as error:
        raise ImageError(f"cannot convert colour mode {mode} ({error})") from error


def _to_sixteen_bits(values: npt.NDArray[np.float64], *, floats: bool) -> npt.NDArray[np.uint16]:
    """Grey of more than 8 bits on the scale that `images.py` shows it in."""
    largest = values.max(initial=0.0)
    if floats:
        values = values * (65535 if largest <= 1 else 257)
    elif largest > 65535:
        values = values / 2**16
    return np.nan_to_num(values).clip(0, 65535).round().astype(np.uint16)


def _to_rgba(levels: Levels) -> npt.NDArray[np.uint16]:
    """Grey, grey with alpha, RGB or RGBA to RGBA."""
    if levels.ndim == 2:
        levels = levels[..., None]
    channels = levels.shape[2]
    rgba = np.full((*levels.shape[:2], 4), 65535, np.uint16)
    rgba[..., :3] = levels[..., :3] if channels >= 3 else levels[..., :1]
    if channels in (2, 4):
        rgba[..., 3] = levels[..., -1]
    return rgba
