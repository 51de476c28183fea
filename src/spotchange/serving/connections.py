"""Connections that ask for nothing end: a client has so long to send the head of a request, the first and every other.

The web server itself waits for ever for the first request of a connection, and for the rest of a head that has begun.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0


class ImpatientProtocol(H11Protocol):
    """HTTP with a clock that runs while no request is being answered."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering():
            self._stop()
        elif self._clock is None:
            self._start()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._answering() and self._clock is None:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start(self) -> None:
        self._clock = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _end(self) -> None:
        self._clock = None
        if not self._answering() and not self.transport.is_closing():
            self.transport.close()
