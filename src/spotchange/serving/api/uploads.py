"""From a request's bytes to two images: every limit is enforced before anything is decoded."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from spotchange.answering import ImagePair, LazyImage
from spotchange.errors import ImageError, ImageSizeError
from spotchange.images import image_size
from spotchange.serving.api.problems import Problem
from spotchange.serving.engine.queue import LARGE_PAIR
from spotchange.serving.settings import ServerSettings

MOST_KEPT_FOR_SMALL = 40_000_000  # pixels
SNIFFED = 1024  # bytes in which readers of other formats look for their mark
_LATE_STARTERS = (b"%PDF-", b"<script", b"<html", b"<!doctype", b"<svg", b"<?php", b"<iframe")
_ZIP_END, _ZIP_END_SIZE = b"PK\x05\x06", 22
_ARCHIVE_TAILS = (b"PK\x03\x04", b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c", b"\x7fELF")


def decode_base64(text: str, side: str, settings: ServerSettings) -> bytes:
    """The bytes of an image in JSON."""
    if len(text) > settings.max_image_bytes * 4 // 3 + 4:
        raise _too_many_bytes(side, settings)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(422, "invalid-base64", f"{side}: this is not base64") from None


def check_image(content: bytes, side: str, settings: ServerSettings) -> int:
    """Refuse what is too large, no image, or something else besides; returns how many pixels it would take."""
    if len(content) > settings.max_image_bytes:
        raise _too_many_bytes(side, settings)
    try:
        width, height = image_size(content, max_pixels=settings.max_pixels)
    except ImageSizeError as error:
        raise Problem(413, "too-many-pixels", f"{side}: {error.message}") from None
    except ImageError as error:
        # What is no image at all is the wrong type; what is damaged is content that cannot be processed.
        status, name = (422, "unreadable-picture") if "damaged" in error.message else (415, "not-a-picture")
        raise Problem(status, name, f"{side}: {error.message}") from None
    if is_polyglot(content):
        raise Problem(422, "polyglot", f"{side}: this file is a picture and something else at once")
    return width * height


def is_polyglot(content: bytes) -> bool:
    """Whether an image's bytes also read as a document, an archive or a program.

    Nothing sent here is ever handed out again, but whoever stores requests beside us might.
    """
    head = content[:SNIFFED].lower()
    if any(mark.lower() in head for mark in _LATE_STARTERS):
        return True
    tail = content[-(_ZIP_END_SIZE + 65535) :]
    place = tail.rfind(_ZIP_END)
    if 0 <= place <= len(tail) - _ZIP_END_SIZE:
        comment = int.from_bytes(tail[place + 20 : place + 22], "little")
        if place + _ZIP_END_SIZE + comment == len(tail):
            return True
    after = content[_end_of_image(content) :][:SNIFFED].lower()
    return any(mark.lower() in after for mark in (*_LATE_STARTERS, *_ARCHIVE_TAILS))


def _end_of_image(content: bytes) -> int:
    """Where the image ends and foreign bytes may begin; the file's length where the format does not say."""
    if content.startswith(b"\x89PNG"):
        place = 8
        while place + 8 <= len(content):
            kind, length = content[place + 4 : place + 8], int.from_bytes(content[place : place + 4], "big")
            place += 12 + length
            if kind == b"IEND":
                break
        return place
    if content.startswith(b"\xff\xd8"):
        # Thumbnails and the second image phones append have end marks too: the first one after the first scan counts.
        scan = content.find(b"\xff\xda")
        place = content.find(b"\xff\xd9", max(scan, 0))
        return place + 2 if place >= 0 else len(content)
    if content.startswith(b"RIFF"):
        return 8 + int.from_bytes(content[4:8], "little")
    if content.startswith(b"BM"):
        return int.from_bytes(content[2:6], "little") or len(content)
    if content.startswith(b"GIF8"):
        place = content.find(b"\x00\x3b")
        return place + 2 if place >= 0 else len(content)
    return len(content)


class Decoder:
    """Decodes pairs in a few threads, with a bound on the pixels that are in memory at a time.

    Large pairs have a thread of their own and may not take all of the memory, so that small ones never wait for them.
    """

    def __init__(self, settings: ServerSettings, *, threads: int = 2) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="decoding")
        self._large = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decoding-large")
        self._pixels_left = settings.max_decoded_pixels
        self._kept_for_small = settings.max_decoded_pixels - 2 * settings.max_pixels
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def pixels(self, count: int) -> AsyncIterator[None]:
        """Hold memory for so many pixels; waits until others have given theirs back."""
        needed = count + min(self._kept_for_small, MOST_KEPT_FOR_SMALL) if count > LARGE_PAIR else count
        async with self._freed:
            await self._freed.wait_for(lambda: self._pixels_left >= needed)
            self._pixels_left -= count
        try:
            yield
        finally:
            self._pixels_left += count
            async with self._freed:
                self._freed.notify_all()

    async def decode(self, before: bytes, after: bytes, *, pixels: int = 0) -> ImagePair:
        """Both images, of so many pixels; a damaged one is a problem that says which side it is."""
        threads = self._large if pixels > LARGE_PAIR else self._threads
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, read_checked_pair, before, after, self._settings)

    def close(self) -> None:
        """Let the threads end."""
        for threads in (self._threads, self._large):
            threads.shutdown(wait=True, cancel_futures=True)


def read_checked_pair(before: bytes, after: bytes, settings: ServerSettings) -> ImagePair:
    """Decode two images that passed `check_image`, and compare them: not the work of the model's thread."""
    pair = ImagePair(_read(before, "before", settings), _read(after, "after", settings))
    _ = pair.identical
    return pair


def _read(content: bytes, side: str, settings: ServerSettings) -> LazyImage:
    image = LazyImage(content, max_pixels=settings.max_pixels)
    try:
        _ = image.pil
    except ImageError as error:
        raise Problem(422, "unreadable-picture", f"{side}: {error.message}") from None
    return image


def _too_many_bytes(side: str, settings: ServerSettings) -> Problem:
    return Problem(413, "picture-too-large", f"{side}: more than {settings.max_image_bytes:,} bytes")
