"""The one place that reads images: any usual file in, an upright opaque RGB image out, or one clear line."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from spotchange.errors import ImageError, ImageSizeError
from spotchange.image_conversion import STRIP, to_rgb, upright, upright_size
from spotchange.image_sources import ImageSource, image_from_array, plain_source
from spotchange.storage import StorePath, as_place, is_address

MAX_PIXELS = 100_000_000
MAX_SIDE = 65_535  # pixels; what JPEG can hold, and more than any page
MAX_ASPECT = 100  # of an image with a side longer than LONG_SIDE: no camera or page makes a longer strip
LONG_SIDE = 4096
_SPARE = 8  # a side is halved, and so on, only while it stays this many times longer than the side wanted
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

# Formats people meet and we do not read: naming them helps more than "not an image".
_FOREIGN = (
    (0, b"%PDF", "PDF"),
    (0, b"<svg", "SVG"),
    (0, b"8BPS", "Photoshop"),
    (0, b"\xff\x0a", "JPEG XL"),
    (4, b"JXL ", "JPEG XL"),
    (4, b"jP  ", "JPEG 2000"),
    (8, b"avif", "AVIF"),
    (8, b"heic", "HEIC"),
    (8, b"mif1", "HEIC"),
)
# Pillow's decoders meet damaged files with whatever their parsers run into: struct.error, AttributeError, ZeroDivision.
_DECODING_ERRORS = (Exception,)


def read_image(source: ImageSource, *, max_pixels: int = MAX_PIXELS, smallest_side: int | None = None) -> Image.Image:
    """Read an image as upright RGB: orientation applied, transparency over white, 16 bits brought to 8.

    Args:
        source: Path, data URL, encoded bytes, file object, Pillow image, array or tensor; see `image_sources`.
        max_pixels: Larger images are refused before anything is decoded.
        smallest_side: Let the JPEG decoder shrink by 2, 4 or 8 as long as both sides stay at least this long.
            Much faster for loaders that scale down anyway; pixels differ slightly from a full decode.

    Raises:
        ImageError: one line that says what is wrong with the image.
    """
    image = read_stored(source, max_pixels=max_pixels, smallest_side=smallest_side)
    try:
        return to_rgb(image)
    except (ValueError, OSError, MemoryError) as error:
        raise ImageError(f"{_name_of(source)}: cannot convert colour mode {image.mode} ({_one_line(error)})") from error


def read_stored(source: ImageSource, *, max_pixels: int = MAX_PIXELS, smallest_side: int | None = None) -> Image.Image:
    """Read an image upright, with the transparency and the depth it is stored with; arguments as `read_image`."""
    source = plain_source(source)
    name = _name_of(source)
    if isinstance(source, Image.Image):
        return _load(source, name=name, max_pixels=max_pixels)
    if isinstance(source, np.ndarray):
        return _load(image_from_array(source), name=name, max_pixels=max_pixels)
    if isinstance(source, bytes):
        return _read_stream(io.BytesIO(source), name, max_pixels, smallest_side)
    with _open_file(source) as stream:
        return _read_stream(stream, name, max_pixels, smallest_side)


def read_pair(
    before: ImageSource, after: ImageSource, *, max_pixels: int = MAX_PIXELS, smallest_side: int | None = None
) -> tuple[Image.Image, Image.Image]:
    """Read both images of a pair; an error says which side it is about. The sides may differ in size."""
    images: list[Image.Image] = []
    problems: list[str] = []
    for side, source in (("before", before), ("after", after)):
        try:
            images.append(read_image(source, max_pixels=max_pixels, smallest_side=smallest_side))
        except ImageError as error:
            problems.append(f"{side}: {error.message}")
    if problems:
        raise ImageError("; ".join(problems))
    return images[0], images[1]


def image_size(source: str | os.PathLike[str] | bytes, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Width and height from the header alone, as the upright image has them: a quick check of a file."""
    if isinstance(source, bytes):
        return upright_size(_open(io.BytesIO(source), "picture", max_pixels))
    name = os.fspath(source)
    with _open_file(source) as stream:
        return upright_size(_open(stream, name, max_pixels))


def size_problem(width: int, height: int, *, max_pixels: int = MAX_PIXELS) -> str | None:
    """Why an image of this size is refused, before anything is decoded; None where it is not."""
    if width < 1 or height < 1:
        return f"no pixels ({width}x{height})"
    if width * height > max_pixels:
        return f"{width}x{height} pixels, more than the limit of {max_pixels:,}"
    if max(width, height) > MAX_SIDE:
        return f"{width}x{height} pixels; a side may have at most {MAX_SIDE:,}"
    if max(width, height) > max(LONG_SIDE, MAX_ASPECT * min(width, height)):
        return f"{width}x{height} pixels; such a long side may be at most {MAX_ASPECT} times the other"
    return None


def images_in(folder: Path) -> set[str]:
    """Relative paths of the images below a folder; hidden files are left-over temporary ones and do not count."""
    if isinstance(folder, StorePath):
        names = (PurePosixPath(name) for name in folder.sizes())
        return {str(name) for name in names if name.suffix.lower() in SUFFIXES and not name.name.startswith(".")}
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    }


def encode_image(image: Image.Image, image_format: str = "png") -> bytes:
    """The image as a file: png, or jpeg at quality 92."""
    packed = io.BytesIO()
    image.save(packed, image_format.upper(), **({"quality": 92} if image_format == "jpeg" else {}))
    return packed.getvalue()


def squash(image: Image.Image, width: int, height: int | None = None) -> Pixels:
    """Scale to exactly `width` x `height` (default: a square), antialiased, whatever the proportions.

    Returns:
        uint8 (3, height, width).
    """
    size = (width, height or width)
    scaled = image if image.size == size else image.resize(size, Image.Resampling.BICUBIC)
    return np.ascontiguousarray(np.asarray(scaled, dtype=np.uint8).transpose(2, 0, 1))


def shrunk(image: Image.Image, width: int, height: int) -> Image.Image:
    """An image much larger than `width` x `height` brought nearer to it by whole factors, each side by its own.

    Whoever scales an image to that size spends time and memory on what is left, not on what was sent. Each side
    stays at least eight times as long as wanted, where averages of whole pixels and a filter's weights give the same.
    """
    across, down = max(1, image.width // (_SPARE * width)), max(1, image.height // (_SPARE * height))
    return image if across == down == 1 else image.reduce((across, down))


def same_pixels(first: Image.Image, second: Image.Image) -> bool:
    """Whether two RGB images are equal, compared strip by strip."""
    if first.size != second.size:
        return False
    width, height = first.size
    rows = max(1, STRIP // width)
    for top in range(0, height, rows):
        box = (0, top, width, min(top + rows, height))
        if first.crop(box).tobytes() != second.crop(box).tobytes():
            return False
    return True


def _name_of(source: object) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "array" if isinstance(source, np.ndarray) else "picture"


def _open_file(source: str | os.PathLike[str]) -> IO[bytes]:
    name = os.fspath(source)
    try:
        if is_address(source):
            return io.BytesIO(as_place(source).read_bytes())
        # Whoever opens a pipe waits until somebody writes into it.
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise ImageError(f"{name} is a folder, not an image" if os.path.isdir(name) else f"{name} is not a file")
        return open(name, "rb")
    except (OSError, ValueError) as error:
        raise ImageError(_why_not_opened(name, error)) from error


def _why_not_opened(name: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{name} does not exist"
    return f"cannot open {name!r}: {getattr(error, 'strerror', None) or error}"


def _read_stream(stream: IO[bytes], name: str, max_pixels: int, smallest_side: int | None) -> Image.Image:
    image = _open(stream, name, max_pixels)
    if smallest_side is not None:
        image.draft(None, (smallest_side, smallest_side))  # None: keep the colour mode
    return _load(image, name=name, max_pixels=max_pixels)


def _open(stream: IO[bytes], name: str, max_pixels: int) -> Image.Image:
    """Read the header only, and refuse what is not an image of ours or too large."""
    prefix = stream.read(16)
    if not prefix:
        raise ImageError(f"{name} is empty (zero bytes)")
    Image.init()
    for format_name in FORMATS:
        # Image.open would do the same, but judges size by a process-wide limit with warnings; ours is an argument.
        factory, accept = Image.OPEN[format_name]
        if accept is not None and accept(prefix) is not True:
            continue
        stream.seek(0)
        try:
            image = factory(stream, name)
        except UnidentifiedImageError:
            continue
        except _DECODING_ERRORS as error:
            raise ImageError(f"{name} is damaged or truncated ({format_name}: {_one_line(error)})") from error
        _check_size(image, name, max_pixels)
        return image
    foreign = [format_name for start, mark, format_name in _FOREIGN if prefix[start:].startswith(mark)]
    if foreign:
        raise ImageError(f"{name} is {foreign[0]}, which is not supported (use {', '.join(FORMATS)})")
    raise ImageError(f"{name} is not an image (or of no supported format: {', '.join(FORMATS)})")


def _check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    problem = size_problem(*image.size, max_pixels=max_pixels)
    if problem is not None:
        raise ImageSizeError(f"{name} has {problem}")


def _load(image: Image.Image, *, name: str, max_pixels: int) -> Image.Image:
    """Decode and turn upright."""
    _check_size(image, name, max_pixels)
    try:
        image.load()
    except _DECODING_ERRORS as error:
        raise ImageError(f"{name} is damaged or truncated ({_one_line(error)})") from error
    try:
        return upright(image)
    except (ValueError, OSError, MemoryError) as error:
        raise ImageError(f"{name}: cannot turn colour mode {image.mode} ({_one_line(error)})") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
