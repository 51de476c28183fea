"""What no system call opens by its name: files of a store, and members of a tar shard. They are read whole."""

from __future__ import annotations

import copy
import hashlib
import os
from typing import Self


class Fetchable(os.PathLike[str]):
    """A file that this project reads itself; its name is its text."""

    _content: bytes | None = None
    _digest: bytes | None = None

    def _read(self) -> bytes:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.__fspath__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fetchable) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def fetched(self) -> Self:
        """The same file with its content held: it is read once, however often it is looked at."""
        content = self.read_bytes()
        held = copy.copy(self)
        held._content = content
        return held

    def read_bytes(self) -> bytes:
        """The whole file; its checksum is remembered."""
        if self._content is not None:
            return self._content
        content = self._read()
        self._digest = hashlib.sha256(content).digest()
        return content

    def digest(self) -> bytes:
        """SHA-256 of what was read, or is now."""
        if self._digest is None:
            self.read_bytes()
        assert self._digest is not None
        return self._digest
