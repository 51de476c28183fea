"""A connection to a Ray cluster: begun and ended with a run, quiet, and refused in one line."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from spotchange.cluster.watch import watched
from spotchange.cluster.work import ClusterOptions
from spotchange.errors import InputError


@contextmanager
def connected(options: ClusterOptions) -> Iterator[None]:
    """A cluster for the time of the block; one that this program is connected to already is used and kept."""
    with _interrupted_afterwards():
        places = _connect(options)
    if places is None:
        yield
        return
    import ray

    try:
        with watched(places):
            yield
    finally:
        ray.shutdown()


def _connect(options: ClusterOptions) -> Mapping[str, str] | None:
    """Where the cluster's processes listen; None where there was a connection before."""
    # Ray prints what dies on stdout, where only results belong; a run says itself what became of every pair.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its core warns of every pool that may restart workers
    import ray
    import ray.data

    if ray.is_initialized():
        return None
    told: list[str] = []
    try:
        with warnings.catch_warnings(), _core_told(told):
            warnings.simplefilter("ignore")
            context: Any = ray.init(
                address=options.address or "local",
                include_dashboard=None if options.address else False,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
            )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _not_connected(options.address, error, "".join(told)) from error
    return dict(context.address_info)


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Ctrl-C waits until Ray has started, a second one does not.

    In one of fifty runs the interrupt of a start was lost in a callback of Python's logging, whose lock then stayed
    closed: the run went on and never ended.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def wait(number: int, _: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if pressed:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _core_told(told: list[str]) -> Iterator[None]:
    """What Ray's core writes to the standard error, past Python, while it connects: it belongs into our one line."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            told.append(file.read().decode(errors="replace"))


def _not_connected(address: str | None, error: Exception, told: str = "") -> InputError:
    text = " ".join(str(error).split())
    if type(error).__name__ == "AuthenticationError" or "InvalidAuthToken" in told:
        hint = "RAY_AUTH_MODE=token, and the token in RAY_AUTH_TOKEN or ~/.ray/auth_token"
        return InputError(f"the Ray cluster at {address} wants its token", hint=hint)
    if "ersion mismatch" in text:
        return InputError(
            f"the cluster at {address} has other versions than this machine: {text}",
            hint="the same Ray and the same Python on every machine",
        )
    return InputError(f"cannot use Ray {f'at {address}' if address else 'on this machine'}: {text}")
