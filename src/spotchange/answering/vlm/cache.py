"""Asking once: replies already paid for come from one SQLite file, and what was spent is counted."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from spotchange.answering.interface import Usage
from spotchange.answering.vlm.asking import Asked, Question, RawReply
from spotchange.errors import InputError, SpotchangeError

log = logging.getLogger(__name__)
Read = TypeVar("Read")
_REPLIES = TypeAdapter(RawReply)


class ReplyCache:
    """Replies by key, safe for several processes; only replies that could be read are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._told = False  # that replies cannot be kept
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
            self._database.commit()
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def get(self, key: str) -> RawReply | None:
        """The reply, if it is known; a damaged entry is not."""
        try:
            with self._lock:
                row = self._database.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            return None if row is None else _REPLIES.validate_json(row[0], strict=True)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        except (ValueError, TypeError):
            return None

    def put(self, key: str, reply: RawReply) -> None:
        """Keep a reply; where that cannot be done it is said once, and the reply is as good."""
        try:
            with self._lock, self._database:
                self._database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, json.dumps(vars(reply))))
        except sqlite3.Error as error:
            if not self._told:
                log.warning("%s; replies are not kept", self._unusable(error).message)
            self._told = True

    def _unusable(self, error: Exception) -> InputError:
        return InputError(f"cannot use the reply cache {self._path}: {error}", hint="--model-option no_cache=true")


class Asker:
    """A model with its cache: the same question is never asked twice, in one run or in the next."""

    def __init__(self, model: Asked, cache: ReplyCache | None, *, prices: tuple[float, float] | None = None) -> None:
        self.model = model
        self.usage = Usage(prices=prices)
        self._cache = cache
        self._lock = threading.Lock()

    def ask(
        self, questions: Sequence[Question], read: Callable[[Question, RawReply], Read]
    ) -> list[Read | SpotchangeError]:
        """One outcome per question, in order: the reply as `read` reads it, or why there is none.

        Replies that cannot be read are errors and are not kept, so that the next run asks again.
        """
        keys = [question.key(self.model.signature) for question in questions]
        outcomes: dict[str, Read | SpotchangeError] = {}
        unknown: dict[str, Question] = {}
        for key, question in zip(keys, questions, strict=True):
            kept = self._cache.get(key) if self._cache is not None else None
            try:
                if kept is None:
                    unknown[key] = question
                else:
                    outcomes[key] = read(question, kept)
            except SpotchangeError:  # kept by a version that read replies otherwise
                unknown[key] = question
        asked = list(unknown.items())

        def arrived(place: int, reply: RawReply | SpotchangeError) -> None:
            """Kept at once: what is paid for outlives whatever ends the run."""
            key, question = asked[place]
            with self._lock:
                self.usage.count(reply)
            if isinstance(reply, SpotchangeError):
                outcomes[key] = reply
                return
            try:
                outcomes[key] = read(question, reply)
            except SpotchangeError as error:
                outcomes[key] = error
                with self._lock:
                    self.usage.unusable += 1
                return
            if self._cache is not None:
                self._cache.put(key, reply)

        with self._lock:
            self.usage.cached += len(keys) - len(asked)
        if asked:
            self.model.ask([question for _, question in asked], arrived)
        return [outcomes[key] for key in keys]


def default_cache() -> Path:
    """In the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spotchange" / "replies.sqlite"
