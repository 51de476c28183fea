"""When a server is asked, and when again: evenly spaced starts, growing waits, as long as it asks to wait."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from email.utils import parsedate_to_datetime

LONGEST_WAIT = 60.0  # seconds between two tries, whatever a server asks for


class Pace:
    """Starts at most so many requests a minute, evenly, over all that a model is asked."""

    def __init__(self, per_minute: float | None) -> None:
        self._gap = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    async def wait(self) -> None:
        """Until the next request may start."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)


def seconds_asked_for(text: str) -> float | None:
    """Of a Retry-After, given as a number or as a date; None where it does not say."""
    try:
        seconds = float(text)
        return min(LONGEST_WAIT, max(0.0, seconds)) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return min(LONGEST_WAIT, max(0.0, parsedate_to_datetime(text).timestamp() - time.time()))
    except (TypeError, ValueError, OverflowError):
        return None


def backoff(tries: int) -> float:
    """Seconds before the next try: twice as long each time, and not the same for all who wait."""
    return float(min(LONGEST_WAIT, 0.5 * 2**tries) * random.uniform(0.5, 1.0))
