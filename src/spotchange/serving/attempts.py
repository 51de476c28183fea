"""Guessing a key takes too long: after a few wrong ones an address has to wait."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable

from spotchange.serving.api.problems import Problem

MOST_FAILURES = 10
WITHIN_SECONDS = 60.0
MOST_ADDRESSES = 10_000  # remembered; the one that failed longest ago is forgotten first


class Attempts:
    """Counts wrong keys by the address they came from."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, address: str) -> None:
        """Remember a wrong key."""
        times = self._failures.pop(address, None) or deque(maxlen=MOST_FAILURES)
        times.append(self._clock())
        self._failures[address] = times
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def refusal(self, address: str) -> Problem | None:
        """The answer to an address that has failed too often, whatever it sends."""
        times = self._failures.get(address)
        if times is None or len(times) < MOST_FAILURES:
            return None
        wait = times[0] + WITHIN_SECONDS - self._clock()
        if wait <= 0:
            return None
        detail = "too many wrong keys; wait a minute"
        return Problem(429, "too-many-attempts", detail, headers={"Retry-After": str(int(wait) + 1)})


def address_of(scope: object) -> str:
    """Who asks; behind a proxy that is the proxy, for all who come through it."""
    client = scope.get("client") if isinstance(scope, dict) else None
    return str(client[0]) if client else ""
