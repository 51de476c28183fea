"""What pages leave in the server's temporary folder: a bound on all of it, and old files go, whoever left them.

The page's framework deletes the uploads it knows of; an upload that was broken off it does not know.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

log = logging.getLogger(__name__)
EVERY_SECONDS = 30.0
KEPT_SECONDS = 600  # uploads and downloads of a page


class Sweeper:
    """Watches one folder; what lies there when it begins stays."""

    def __init__(self, folder: Path, *, kept_seconds: float, most_bytes: int) -> None:
        self._folder, self._kept_seconds, self._most_bytes = folder, kept_seconds, most_bytes
        self._own = set(folder.rglob("*"))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeping", daemon=True)
        self._thread.start()

    def has_room(self, upload_bytes: int) -> bool:
        """Whether an upload of this size may begin."""
        return sum(size for _, _, size in self._foreign()) + upload_bytes <= self._most_bytes

    def sweep(self) -> None:
        """Delete what is older than it may be."""
        now = time.time()
        for path, changed, _ in self._foreign():
            if now - changed > self._kept_seconds:
                path.unlink(missing_ok=True)
        for folder in sorted((path for path in self._folder.rglob("*") if path.is_dir()), reverse=True):
            if folder not in self._own and now - folder.stat().st_mtime > self._kept_seconds:
                try:
                    folder.rmdir()
                except OSError:  # something is in it
                    continue

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()

    def _foreign(self) -> list[tuple[Path, float, int]]:
        found = []
        for path in self._folder.rglob("*"):
            try:
                status = path.stat()
            except OSError:  # gone meanwhile
                continue
            if path not in self._own and not path.is_dir():
                found.append((path, status.st_mtime, status.st_size))
        return found

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            try:
                self.sweep()
            except OSError:
                log.exception("old files of pages could not be deleted; tried again later")
