"""Memory that is free goes back to the system.

A batch of sixteen pairs needs a few hundred megabytes for a moment. The C library keeps freed memory for later, for
every thread anew, so a server under load seems to grow; asked to, it gives it back.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        trim: Callable[[int], int] = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6").malloc_trim
    except (OSError, AttributeError):  # another C library than glibc
        return None
    return trim


def give_back_memory() -> None:
    """Return free memory to the system, where the C library can."""
    trim = _trim()
    if trim is not None:
        trim(0)
