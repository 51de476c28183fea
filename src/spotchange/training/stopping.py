"""When a command ends before its plan does: after some minutes, at a step, or because it was asked to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType


class StopRequest:
    """Collects reasons to stop; the loop saves `last` and ends, and `--resume` goes on from there."""

    def __init__(
        self,
        *,
        minutes: float | None = None,
        at_step: int | None = None,
        asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self._deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
        self._at_step = at_step
        self._asked_elsewhere = asked
        self.heard: int | None = None  # the signal that asked to stop

    def listen(self) -> None:
        """Treat the first SIGINT or SIGTERM as a wish to stop after this step; a second one ends the process."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._hear)
            signal.signal(signal.SIGTERM, self._hear)

    def wanted(self, step: int) -> bool:
        """Whether to stop now, after `step`."""
        too_late = self._deadline is not None and time.monotonic() >= self._deadline
        asked = self.heard is not None or self._asked_elsewhere()
        return asked or too_late or (self._at_step is not None and step >= self._at_step)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = int(number)
        signal.signal(number, signal.SIG_DFL)
