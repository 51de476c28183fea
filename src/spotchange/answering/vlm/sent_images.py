"""How an image travels to a server: the file as it is where it holds the image and nothing else, else written anew.

Nobody asked to tell a server where a photo was taken, or who wrote a screenshot's caption; and a server that does not
turn an image upright, or lays another ground under what is transparent, would see another one than is compared here.
So a file goes as it is only if every part of it is known to be needed: what metadata look like nobody can list.
"""

from __future__ import annotations

import base64
import re

from spotchange.answering.pair import LazyImage
from spotchange.images import encode_image

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_PARTS = {b"IHDR", b"PLTE", b"IDAT", b"IEND", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs"}
_OPAQUE = {b"\x00", b"\x02", b"\x03"}  # kinds of color without alpha
_JPEG = b"\xff\xd8"
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)  # stuffed bytes and restarts are image data
_JPEG_END, _JPEG_SCAN, _JFIF, _PROFILE, _ADOBE = 0xD9, 0xDA, 0xE0, 0xE2, 0xEE
_JPEG_PARTS = {*range(0xC0, 0xD0), _JPEG_SCAN, 0xDB, 0xDD}  # frames and tables
_JFIF_BYTES = 16  # longer ones hold a thumbnail, perhaps of what was cut off


def data_url(image: LazyImage, image_format: str) -> str:
    """The image for a request."""
    kind, content = image_format, image.encoded
    if content is not None and _bare_png(content):
        kind = "png"
    elif content is not None and _bare_jpeg(content):
        kind = "jpeg"
    else:
        content = encode_image(image.pil, image_format)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _bare_png(content: bytes) -> bool:
    """An opaque image of at most 8 bits a channel, and nothing else."""
    depth, color = content[24:25], content[25:26]
    if not content.startswith(_PNG) or depth > b"\x08" or color not in _OPAQUE:
        return False
    place = len(_PNG)
    while place < len(content):
        name = content[place + 4 : place + 8]
        if name not in _PNG_PARTS:
            return False
        place += 12 + int.from_bytes(content[place : place + 4], "big")
        if name == b"IEND":
            return place == len(content)
    return False


def _bare_jpeg(content: bytes) -> bool:
    """Frames, tables and what tells its colors, up to the end of the file."""
    place, in_scan = len(_JPEG), False
    while content.startswith(_JPEG) and (found := _JPEG_MARKER.search(content, place)):
        marker, start = found[1][0], found.end()
        if not in_scan and found.start() != place:
            return False
        if marker == _JPEG_END:
            return start == len(content)
        size = int.from_bytes(content[start : start + 2], "big")
        if not _needed(marker, content[start + 2 : start + size]):
            return False
        place, in_scan = start + size, marker == _JPEG_SCAN
    return False


def _needed(marker: int, part: bytes) -> bool:
    if marker == _JFIF:
        return part.startswith(b"JFIF\0") and len(part) + 2 == _JFIF_BYTES
    if marker == _PROFILE:
        return part.startswith(b"ICC_PROFILE\0")
    return marker in _JPEG_PARTS or (marker == _ADOBE and part.startswith(b"Adobe"))
