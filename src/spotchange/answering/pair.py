"""A pair of images as every answerer receives it: decoded on first use, original bytes kept."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from PIL import Image

from spotchange.errors import ImageError
from spotchange.image_sources import ImageSource, PlainSource, plain_source
from spotchange.images import MAX_PIXELS, Pixels, read_image, same_pixels
from spotchange.storage import Fetchable, as_place, is_address


class LazyImage:
    """One image of a pair; decoding happens once, when something asks for pixels."""

    def __init__(self, source: ImageSource, *, max_pixels: int = MAX_PIXELS) -> None:
        self._given = source
        self._max_pixels = max_pixels

    @cached_property
    def source(self) -> PlainSource:
        """What was given, as a path, bytes, a Pillow image or an array; file objects and addresses are read once."""
        source = plain_source(self._given)
        if is_address(source):
            with suppress(OSError):  # reading the image says what is wrong
                return cast("Fetchable", as_place(cast("str", source))).fetched()
        return source

    @cached_property
    def encoded(self) -> bytes | None:
        """The file as it was given; None where the caller gave pixels."""
        if isinstance(self.source, bytes):
            return self.source
        if isinstance(self.source, str | os.PathLike):
            try:
                return as_place(self.source).read_bytes()
            except (OSError, ValueError):
                return None  # reading the image says what is wrong
        return None

    @cached_property
    def pil(self) -> Image.Image:
        """Upright, opaque, 8-bit RGB at native size."""
        return read_image(self.source, max_pixels=self._max_pixels)

    @cached_property
    def pixels(self) -> Pixels:
        """The same as an array: uint8 (height, width, 3)."""
        return np.asarray(self.pil)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.pil.size


@dataclass(frozen=True)
class ImagePair:
    """Two images of one place, before and after."""

    before: LazyImage
    after: LazyImage

    @classmethod
    def of(cls, before: ImageSource, after: ImageSource, *, max_pixels: int = MAX_PIXELS) -> ImagePair:
        """From paths, data URLs, encoded bytes, file objects, Pillow images, arrays or tensors."""
        return cls(LazyImage(before, max_pixels=max_pixels), LazyImage(after, max_pixels=max_pixels))

    def load(self) -> ImagePair:
        """Decode both sides now; an error says which side it is about."""
        problems = []
        for side, image in (("before", self.before), ("after", self.after)):
            try:
                _ = image.pil
            except ImageError as error:
                problems.append(f"{side}: {error.message}")
        if problems:
            raise ImageError("; ".join(problems))
        return self

    @cached_property
    def identical(self) -> bool:
        """Whether both sides have the same pixels."""
        return same_pixels(self.before.pil, self.after.pil)
