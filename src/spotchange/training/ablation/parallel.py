"""Chains of an ablation in several processes on one device: small models leave most of a GPU idle on their own.

While one process compiles, validates or saves, the others compute. The shared stage runs first and alone.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import TextIOBase
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import TextIO

from spotchange.errors import SpotchangeError
from spotchange.training.ablation.table import SHARED, Job, RunStage, run_jobs
from spotchange.training.stopping import StopRequest

_LOOK_EVERY = 0.5  # seconds between looks at whether to stop

_stop = StopRequest()  # of this worker process


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a chain ended: finished, stopped early (neither), or failed with a reason."""

    finished: bool
    error: str | None = None


def run_side_by_side(
    jobs: Sequence[Job], run_stage: RunStage, *, workers: int, stop: StopRequest, device: str
) -> dict[str, Outcome]:
    """Run what is not finished and say how each chain ended, by name."""
    chains = {name: list(members) for name, members in groupby(jobs, key=lambda job: job.chain)}
    context = get_context("spawn")  # a process that has used a GPU cannot be forked
    asked = context.Event()
    workers = min(workers, len(chains))
    outcomes: dict[str, Outcome] = {}
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(asked, os.getpid(), workers)) as pool:
        shared = chains.pop(SHARED, None)
        if shared is not None:
            waiting = {pool.submit(_run_chain, shared, run_stage, device): SHARED}
            outcomes |= _collect(waiting, stop, asked)
            if not outcomes[SHARED].finished:
                return outcomes
        waiting = {pool.submit(_run_chain, chain, run_stage, device): name for name, chain in chains.items()}
        return outcomes | _collect(waiting, stop, asked)


def _collect(waiting: dict[Future[Outcome], str], stop: StopRequest, asked: Event) -> dict[str, Outcome]:
    outcomes = {}
    left = set(waiting)
    while left:
        done, left = wait(left, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
        if stop.wanted(0):
            asked.set()
        for future in done:
            try:
                outcomes[waiting[future]] = future.result()
            except BrokenProcessPool:
                outcomes[waiting[future]] = Outcome(finished=False, error="a process was killed; was memory short?")
    return outcomes


def _begin(asked: Event, parent: int, workers: int) -> None:
    global _stop
    import torch

    from spotchange.training.sources.memory import share_gpu

    # Ctrl-C reaches the whole group; the parent alone decides, and saving must not be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _stop = StopRequest(asked=lambda: asked.is_set() or os.getppid() != parent)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    share_gpu(workers)  # all of them look at the free memory before any has taken its part


def _run_chain(chain: list[Job], run_stage: RunStage, device: str) -> Outcome:
    if all(job.summary is not None for job in chain):
        return Outcome(finished=True)
    with redirect_stderr(_Labelled(sys.stderr, chain[0].chain)):
        try:
            return Outcome(finished=run_jobs(chain, run_stage, stop=_stop, device=device))
        except SpotchangeError as error:
            return Outcome(finished=False, error=error.message)
        except Exception as error:  # one cell's trouble must not end the others
            traceback.print_exc()
            return Outcome(finished=False, error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        finally:
            _free_memory()


def _free_memory() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # what this process does not use, another can


class _Labelled(TextIOBase):
    """A stream that says before every line whose it is."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream, self._label, self._rest = stream, label, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._stream.write(f"[{self._label}] {line}\n")  # one call a line: processes do not mix within it
        self._stream.flush()
        return len(text)

    def fileno(self) -> int:
        """The stream's own, for compilers that are started with it."""
        return self._stream.fileno()
