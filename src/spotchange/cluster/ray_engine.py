"""Pieces of work on Ray Data: a pool of workers, streaming, back-pressure; and what is done when workers die.

Ray starts a dead worker anew and gives it the piece again, once. A piece that is lost then is looked at item by item,
each alone in a worker: an item whose worker dies once more becomes an error, all others are answered. The process that
started the run takes all results, so nothing is written by a worker that may die, and nothing twice.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain, islice
from typing import Any

from spotchange import __version__
from spotchange.cluster.connection import connected
from spotchange.cluster.work import ClusterOptions, Piece, Work
from spotchange.errors import InputError, SpotchangeError

DIED = "the worker that looked at it died, also with it alone (out of memory, or a crash of a library)"
SECONDS_TO_TELL = 60.0  # of a node that is asked why no worker starts there
QUEUED = 2  # pieces a worker has at hand: it never waits for the next one
# glibc's mallopt: names from malloc.h, and bytes; 32 MiB is the most it takes for the second.
KEPT_MEMORY = {-1: 2**28, -3: 2**25}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_NO_MODULE = re.compile(r"No module named '(\w+)")


class _ResultsLost(Exception):
    """Ray could not deliver: a node took results along, or no worker can start."""


def run(
    work: Work, wanted: dict[int, Piece], options: ClusterOptions, started: Callable[[int], None]
) -> Iterator[tuple[int, list[Any]]]:
    """See `run_on_ray`."""
    lost = dict(wanted)
    with connected(options):
        from ray import cloudpickle  # so that what a notebook defines travels too

        packed = cloudpickle.dumps((work, os.getcwd()))
        workers = _count_workers(options)
        started(workers)
        for number, results in _delivered(packed, wanted, options, workers, retries=1):
            del lost[number]
            yield number, results
        alone: dict[int, Piece] = {place: [item] for place, item in enumerate(chain.from_iterable(lost.values()))}
        found = dict(_delivered(packed, alone, options, workers, retries=0))
        answers = (found[place][0] if place in found else work.failed(item, DIED) for place, (item,) in alone.items())
        for number, piece in lost.items():
            yield number, list(islice(answers, len(piece)))


def _delivered(
    packed: bytes, wanted: dict[int, Piece], options: ClusterOptions, workers: int, *, retries: int
) -> Iterator[tuple[int, list[Any]]]:
    """Pieces that come through, in a stream that is begun again when the cluster could not deliver."""
    missing = dict(wanted)
    complete = False
    while missing and not complete:
        left = len(missing)
        try:
            for number, results in _stream(packed, missing, options, workers, retries=retries):
                del missing[number]
                yield number, results
            complete = True
        except _ResultsLost as error:
            if len(missing) == left:  # not even one piece more: it would be the same again
                raise _explained(error, packed) from error


def _stream(
    packed: bytes, wanted: dict[int, Piece], options: ClusterOptions, workers: int, *, retries: int
) -> Iterator[tuple[int, list[Any]]]:
    """Pieces through a pool of workers; those that are lost with their worker are left out."""
    import ray

    rows = [{"number": number, "piece": pickle.dumps(piece)} for number, piece in wanted.items()]
    size = min(workers, len(rows))
    with _data_settings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Ray's own next version
        results = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _Worker,
            batch_size=1,
            batch_format="numpy",
            compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=QUEUED if retries else 1),
            fn_constructor_args=(packed, __version__),
            num_cpus=1,
            num_gpus=options.gpus_per_worker or None,
            max_restarts=-1,
            max_task_retries=retries,
        )
        try:
            for batch in results.iter_batches(batch_size=None, batch_format="numpy"):
                for number, content in zip(batch["number"], batch["results"], strict=True):
                    outcome = pickle.loads(content)
                    if isinstance(outcome, Exception):
                        raise outcome
                    yield int(number), outcome
        except ray.exceptions.RayError as error:
            raise _ResultsLost(str(error)) from error


class _Worker:
    """In a process of the cluster: does the work, and lets nothing but death stop it."""

    def __init__(self, packed: bytes, version: str) -> None:
        self.problem: Exception | None = None
        if version != __version__:
            hint = "install the same version on every machine"
            self.problem = InputError(f"the cluster has spotchange {__version__}, this machine {version}", hint=hint)
            return
        _keep_freed_memory()
        try:
            work, place = pickle.loads(packed)
            with suppress(OSError):  # a machine without that folder still reads what has a whole address
                os.chdir(place)  # relative paths mean here what they mean to whoever typed them
            self.do = work.start()
        except Exception as error:
            self.problem = _portable(error)

    def __call__(self, batch: dict[str, Any]) -> Iterator[dict[str, list[Any]]]:
        for number, piece in zip(batch["number"], batch["piece"], strict=True):
            outcome: Any = self.problem
            if outcome is None:
                try:
                    outcome = list(self.do(pickle.loads(piece)))
                except Exception as error:
                    outcome = _portable(error)
            yield {"number": [int(number)], "results": [pickle.dumps(outcome)]}


def _keep_freed_memory() -> None:
    """Let the allocator keep up to 256 MiB of what decoded images leave instead of handing it back to the kernel.

    In a worker of Ray glibc gives every image's memory back and takes it anew: three times the page faults of the
    plain path, 15 % of the CPU time of `--model pixels` on images of 480x320. Other C libraries have no such call.
    """
    mallopt: Any = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        for name, size in KEPT_MEMORY.items():
            mallopt(name, size)


def _portable(error: Exception) -> Exception:
    """An error that can travel: what a user can repair as one line, our own mistakes with the place they came from."""
    if isinstance(error, SpotchangeError):
        return InputError(error.message, hint=error.hint)
    if isinstance(error, ModuleNotFoundError):
        return _absent(error.name)
    return RuntimeError("in a worker:\n" + traceback.format_exc())


def _count_workers(options: ClusterOptions) -> int:
    import ray

    there = ray.cluster_resources()
    gpus, cores = there.get("GPU", 0.0), there.get("CPU", 0.0)
    if options.gpus_per_worker and not gpus:
        raise InputError("--gpus-per-worker: the cluster has no GPU", hint="leave it out to compute on its cores")
    most = int(min(cores, gpus / options.gpus_per_worker)) if options.gpus_per_worker else int(cores)
    if most < 1:
        raise InputError(f"no room for a worker: the cluster has {cores:g} cores and {gpus:g} GPUs")
    return min(most, options.workers or most)


@contextmanager
def _data_settings() -> Iterator[None]:
    """Results in order, lost pieces left out, no bars and no reports of Ray's own."""
    from ray.data import DataContext

    logger = logging.getLogger("ray.data")
    level, context = logger.level, DataContext.get_current()
    ours = {"max_errored_blocks": -1, "enable_progress_bars": False, "print_on_execution_start": False}
    theirs = {name: getattr(context, name) for name in ours}
    ordered = context.execution_options.preserve_order
    try:
        logger.setLevel(logging.CRITICAL)
        for name, value in ours.items():
            setattr(context, name, value)
        context.execution_options.preserve_order = True
        yield
    finally:
        logger.setLevel(level)
        for name, value in theirs.items():
            setattr(context, name, value)
        context.execution_options.preserve_order = ordered


def _explained(error: _ResultsLost, packed: bytes) -> InputError:
    absent = _NO_MODULE.search(str(error)) or _NO_MODULE.search(_told_by_nodes(packed))
    if absent is not None:
        return _absent(absent[1])
    text = str(error).strip().splitlines()
    return InputError(f"the cluster gave no results: {text[-1] if text else 'it ended'}")


def _absent(package: str | None) -> InputError:
    hint = "the same installation on every machine"
    return InputError(f"a machine of the cluster has no Python package '{package}'", hint=hint)


def _told_by_nodes(packed: bytes) -> str:
    """What hinders a worker from starting on some node; a pool only tells that its workers are gone."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    start = ray.remote(num_cpus=0, max_retries=0)(_start)
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            try:
                ray.get(start.options(scheduling_strategy=there).remote(packed), timeout=SECONDS_TO_TELL)
            except (ray.exceptions.RayError, TimeoutError) as error:
                return str(error)
    return ""


def _start(packed: bytes) -> None:
    """What every worker of a pool needs before it starts."""
    import_module("ray.data")
    pickle.loads(packed)
