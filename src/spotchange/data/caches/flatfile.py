"""Random reads from a large file by several threads."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

from spotchange.errors import DataError


class FlatFile:
    """Reads pieces of a file at given places.

    Plain reads instead of a memory map: a map's pages count as this process's memory, which would then seem to
    grow with the set, and faulting them in one by one is slower than reading a whole image at once.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = -1  # so that closing works however far this gets
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error
        self._lock = threading.Lock()

    def read_into(self, place: int, target: np.ndarray[Any, Any]) -> None:
        """Fill `target`, an array in one piece, with the bytes that begin at `place`."""
        view: Any = target
        buffer = memoryview(view).cast("B")
        if hasattr(os, "preadv"):
            count = os.preadv(self._descriptor, [buffer], place)
        else:  # without positional reads, seeking and reading are two steps that belong together
            with self._lock:
                os.lseek(self._descriptor, place, os.SEEK_SET)
                content = os.read(self._descriptor, len(buffer))
            count = len(content)
            buffer[:count] = content
        if count != len(buffer):
            raise DataError(f"{self.path} is shorter than its index says", hint="delete its folder to build it anew")

    def read(self, place: int, size: int) -> bytes:
        """The `size` bytes that begin at `place`."""
        target = np.empty(size, dtype=np.uint8)
        self.read_into(place, target)
        return target.tobytes()

    def __len__(self) -> int:
        return os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
