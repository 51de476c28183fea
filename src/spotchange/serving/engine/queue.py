"""Pairs in flight are answered together: one batch at a time, a short window, a bounded number of places.

A *place* is held from a pair's arrival to its answer. Whoever finds none free is told so at once, so that waiting
never grows without bound; whoever goes away gives theirs back. Pairs that another machine answers are asked about one
by one and beside each other: nothing is gained by a batch there, and a slow reply holds nobody up.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from spotchange.answering import Answer, Answerer, CaptionOptions, ImagePair

LARGE_PAIR = 20_000_000  # pixels of both images; two of 3840 x 2160 are smaller
IDLE_SECONDS = 1.0  # without work, until memory is given back
LARGE_PAIR_WAITS = 2.0  # seconds for small ones, at most
log = logging.getLogger(__name__)


class Observer(Protocol):
    """Told about every batch, for the metrics."""

    def batch_done(self, pairs: int, seconds: float) -> None:
        """A batch of so many pairs took so long."""


class NoPlaceError(Exception):
    """Every place is taken, or the server is closing."""


@dataclass(eq=False)
class _QueuedPair:
    pair: ImagePair
    options: CaptionOptions
    future: Future[Answer] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def large(self) -> bool:
        """Whether the images take longer than the model."""
        return sum(width * height for width, height in (self.pair.before.size, self.pair.after.size)) > LARGE_PAIR


class Batcher:
    """Collects pairs from any thread and answers them in batches."""

    def __init__(
        self,
        answerer: Answerer,
        *,
        batch_size: int,
        window_seconds: float,
        places: int,
        at_once: int = 1,
        observer: Observer | None = None,
    ) -> None:
        self.places = places
        self.places_taken = 0
        self._answerer = answerer
        self._batch_size = batch_size
        self._window_seconds = window_seconds
        self._observer = observer
        self._waiting: deque[_QueuedPair] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._worked = False  # since memory was last given back
        self._threads = [threading.Thread(target=self._run, name="batching", daemon=True) for _ in range(at_once)]
        for thread in self._threads:
            thread.start()

    @property
    def ready(self) -> bool:
        """Whether a pair that comes now would be answered."""
        return all(thread.is_alive() for thread in self._threads) and not self._closing

    @contextmanager
    def place(self, pairs: int = 1) -> Iterator[None]:
        """Hold places for the time of the block.

        Raises:
            NoPlaceError: so many are not free.
        """
        with self._changed:
            if self._closing or self.places_taken + pairs > self.places:
                raise NoPlaceError
            self.places_taken += pairs
        try:
            yield
        finally:
            with self._changed:
                self.places_taken -= pairs

    def submit(self, pair: ImagePair, options: CaptionOptions) -> Future[Answer]:
        """The answer to come; cancelling the future takes the pair out of the queue."""
        job = _QueuedPair(pair.load(), options)
        job.future.add_done_callback(lambda future: self._forget(job) if future.cancelled() else None)
        with self._changed:
            if self._closing:
                raise NoPlaceError
            self._waiting.append(job)
            self._changed.notify_all()
        return job.future

    def close(self) -> None:
        """Answer what was submitted, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _forget(self, job: _QueuedPair) -> None:
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)

    def _run(self) -> None:
        while True:
            jobs: list[_QueuedPair] = []
            try:
                jobs = self._collect()
                if jobs:
                    self._answer(jobs)
                elif self._closing and not self._waiting:
                    return
            except BaseException as error:  # a thread must outlive whatever happens to one batch
                log.exception("a batching thread met an error and goes on")
                for job in jobs:
                    if not job.future.done():
                        job.future.set_exception(error if isinstance(error, Exception) else RuntimeError("stopped"))

    def _collect(self) -> list[_QueuedPair]:
        """The next batch: small pairs before large ones."""
        with self._changed:
            while not self._waiting and not self._closing:
                if not self._changed.wait(IDLE_SECONDS if self._worked else None) and self._worked:
                    self._worked = False
                    give_back_memory()
            until = time.monotonic() + self._window_seconds
            while 0 < len(self._waiting) < self._batch_size and not self._closing:
                remaining = until - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
            if not self._waiting:
                return []
            taken = self._next()
            for job in taken:
                self._waiting.remove(job)
        # From here on a job cannot be cancelled any more; those that were are left out.
        return [job for job in taken if job.future.set_running_or_notify_cancel()]

    def _next(self) -> list[_QueuedPair]:
        """The small pair that waited longest and those behind it; a large one alone, if it has waited or none is small.

        Large pairs are held back rather than first come, first served: a few of them would make everyone wait.
        """
        small = [job for job in self._waiting if not job.large]
        large = next((job for job in self._waiting if job.large), None)
        if large is not None and (not small or time.monotonic() - large.since > LARGE_PAIR_WAITS):
            return [large]
        return [job for job in small if job.options == small[0].options][: self._batch_size]

    def _answer(self, jobs: list[_QueuedPair]) -> None:
        started = time.perf_counter()
        self._worked = True
        try:
            outcomes = self._answerer.answer([job.pair for job in jobs], jobs[0].options)
            for job, outcome in zip(jobs, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    job.future.set_exception(outcome)
                else:
                    job.future.set_result(outcome)
        except Exception as error:
            if len(jobs) == 1:
                log.exception("a pair could not be answered")
                jobs[0].future.set_exception(error)
                return
            # One pair must not spoil the others' answers: each has a second chance alone.
            log.warning("a batch of %d pairs failed (%s); each is tried alone", len(jobs), type(error).__name__)
            for job in jobs:
                if not job.future.done():
                    self._answer([job])
            return
        if self._observer is not None:
            self._observer.batch_done(len(jobs), time.perf_counter() - started)


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
    """Return free memory to the system, where the C library can.

    A batch of sixteen pairs needs a few hundred megabytes for a moment. The C library keeps freed memory for later,
    for every thread anew, so a server under load seems to grow; asked to, it gives it back.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
