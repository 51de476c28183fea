"""How an image travels to a server: the parts of its file that hold the image, and nothing else of it.

Nobody asked to tell a server where a photo was taken, or who wrote a screenshot's caption; and a server that does not
turn an image upright, or lays another ground under what is transparent, would see another one than is compared here.
What metadata look like nobody can list, so what is needed is listed; a file that cannot be had so is written anew.
"""

from __future__ import annotations

import base64
import re

from spotchange.answering.pair import LazyImage
from spotchange.images import encode_image, read_image, same_pixels

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_PARTS = {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs"}
_OPAQUE = {b"\x00", b"\x02", b"\x03"}  # kinds of color without alpha
_JPEG = b"\xff\xd8"
_JPEG_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)  # stuffed bytes and restarts are image data
_JPEG_END, _JPEG_SCAN, _JFIF, _PROFILE, _ADOBE = 0xD9, 0xDA, 0xE0, 0xE2, 0xEE
_JPEG_PARTS = {*range(0xC0, 0xD0), _JPEG_SCAN, 0xDB, 0xDD}  # frames and tables
_JFIF_BYTES = 16  # longer ones hold a thumbnail, perhaps of what was cut off


def data_url(image: LazyImage, image_format: str) -> str:
    """The image for a request."""
    kind, content = _bare(image) or (image_format, encode_image(image.pil, image_format))
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _bare(image: LazyImage) -> tuple[str, bytes] | None:
    """Its file without what is not image; None where every server would not see what is compared here."""
    whole = image.encoded or b""
    for kind, content in (("png", _bare_png(whole)), ("jpeg", _bare_jpeg(whole))):
        # What was left out may have said which side is up.
        if content is not None and (content == whole or same_pixels(read_image(content), image.pil)):
            return kind, content
    return None


def _bare_png(whole: bytes) -> bytes | None:
    """Of an opaque image of at most 8 bits a channel."""
    depth, color = whole[24:25], whole[25:26]
    if not whole.startswith(_PNG) or depth > b"\x08" or color not in _OPAQUE:
        return None
    place, bare = len(_PNG), bytearray(_PNG)
    while place < len(whole):
        name, start = whole[place + 4 : place + 8], place
        place += 12 + int.from_bytes(whole[place : place + 4], "big")
        if name == b"tRNS":
            return None
        if name in _PNG_PARTS:
            bare += whole[start:place]
        if name == b"IEND":
            return bytes(bare)
    return None


def _bare_jpeg(whole: bytes) -> bytes | None:
    """Frames, scans, tables and what tells the colors."""
    if not whole.startswith(_JPEG):
        return None
    place, bare, in_scan = len(_JPEG), bytearray(_JPEG), False
    while found := _JPEG_MARKER.search(whole, place):
        if in_scan:
            bare += whole[place : found.start()]
        marker, start = found[1][0], found.end()
        if marker == _JPEG_END:
            return bytes(bare + whole[found.start() : start])
        size = int.from_bytes(whole[start : start + 2], "big")
        if size < 2:
            return None
        place, in_scan = start + size, marker == _JPEG_SCAN
        if _needed(marker, whole[start + 2 : place]):
            bare += whole[found.start() : place]
    return None


def _needed(marker: int, part: bytes) -> bool:
    if marker == _JFIF:
        return part.startswith(b"JFIF\0") and len(part) + 2 == _JFIF_BYTES
    if marker == _PROFILE:
        return part.startswith(b"ICC_PROFILE\0")
    return marker in _JPEG_PARTS or (marker == _ADOBE and part.startswith(b"Adobe"))
