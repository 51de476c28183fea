"""Replies already paid for: one SQLite file, safe for several processes."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from pathlib import Path

from spotchange.answering.vlm.asking import RawReply
from spotchange.errors import InputError


class ReplyCache:
    """Replies by key; only replies that could be read are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            self._database.commit()
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"cannot use the reply cache {path}: {error}", hint="--model-option no_cache=true"
            ) from error

    def get(self, key: str) -> RawReply | None:
        """The reply, if it is known."""
        with self._lock:
            row = self._database.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        return None if row is None else RawReply(**json.loads(row[0]))

    def put(self, key: str, reply: RawReply) -> None:
        """Keep a reply."""
        with self._lock, self._database:
            self._database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, json.dumps(vars(reply))))


def default_cache() -> Path:
    """In the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spotchange" / "replies.sqlite"
