"""Whatever an image may be given as, brought to what `images.py` reads: a path, encoded bytes, Pillow, an array.

Arrays and tensors are (height, width), (height, width, channels) or (channels, height, width) with 1, 3 or 4 channels,
of uint8, uint16, bool, or floats from 0 to 1. Where both orders fit the shape (a side of 1, 3 or 4 pixels), a numpy
array has its channels last, as Pillow and OpenCV have them, and a tensor is refused: nobody can know.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import IO, Any

import numpy as np
from PIL import Image

from spotchange.errors import ImageError

ImageSource = str | os.PathLike[str] | bytes | Image.Image | np.ndarray[Any, Any] | IO[bytes] | Any
"""A path, a data URL, encoded bytes, a file object, a Pillow image, a numpy array or a torch tensor."""
PlainSource = str | os.PathLike[str] | bytes | Image.Image | np.ndarray[Any, Any]

_CHANNELS = (1, 3, 4)
_DATA_URL = re.compile(r"data:image/[\w.+-]+(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


def plain_source(source: ImageSource) -> PlainSource:
    """The same image as a path, bytes, a Pillow image or an array with channels last.

    Raises:
        ImageError: one line that says why it is none.
    """
    if isinstance(source, str) and source[:5].lower() == "data:":
        return _from_data_url(source)
    if isinstance(source, str | os.PathLike | bytes | Image.Image):
        return source
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if isinstance(source, np.ndarray):
        return channels_last(source)
    if type(source).__module__.partition(".")[0] == "torch":  # not imported to ask: most callers have none
        return channels_last(_from_tensor(source), tensor=True)
    if callable(getattr(source, "read", None)):
        return _from_file(source)
    raise ImageError(f"cannot read an image from {type(source).__name__}")


def channels_last(array: np.ndarray[Any, Any], *, tensor: bool = False) -> np.ndarray[Any, Any]:
    """(height, width) or (height, width, channels), whichever order the array has."""
    last = array.ndim == 3 and array.shape[2] in _CHANNELS
    first = array.ndim == 3 and array.shape[0] in _CHANNELS
    if tensor and first and last:
        raise ImageError(f"tensor of shape {array.shape} may have its channels first or last: give a numpy array")
    if 0 in array.shape or (array.ndim != 2 and not first and not last):
        raise ImageError(
            f"{'tensor' if tensor else 'array'} of shape {array.shape} is not (height, width), "
            "(height, width, 1, 3 or 4) or (1, 3 or 4, height, width)"
        )
    return array.transpose(1, 2, 0) if first and not last else array


def image_from_array(array: np.ndarray[Any, Any]) -> Image.Image:
    """An array with channels last as an image of 8 bits."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.dtype == np.uint16:
        array = (array / 257).round()
    elif array.dtype == np.bool_:
        array = array * 255
    elif np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise ImageError("array of floats must hold values from 0 to 1")
        array = (array * 255).round()
    elif array.dtype != np.uint8:
        raise ImageError(f"array of {array.dtype} is not uint8, uint16, bool or float")
    return Image.fromarray(np.ascontiguousarray(array, dtype=np.uint8))


def _from_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    try:
        held = tensor.detach().cpu()
        return np.asarray((held.float() if held.is_floating_point() else held).numpy())  # numpy has no bfloat16
    except (TypeError, RuntimeError, AttributeError) as error:
        raise ImageError(f"cannot read an image from this tensor ({' '.join(str(error).split())[:120]})") from error


def _from_file(stream: Any) -> bytes:
    try:
        content = stream.read()
    except (OSError, ValueError) as error:
        raise ImageError(f"cannot read the file object: {error}") from error
    if not isinstance(content, bytes):
        raise ImageError("the file object gives text, not bytes: open it in binary mode ('rb')")
    return content


def _from_data_url(text: str) -> bytes:
    head = _DATA_URL.match(text)
    if head is None:
        raise ImageError("a data URL must begin with data:image/...;base64,")
    try:
        return base64.b64decode(text[head.end() :].strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"the data URL is not base64 ({error})") from error
