"""A cluster that is gone while it works for us is said in one line.

Ray ends the program of whoever lost the cluster's head, or the node it is connected to, by itself: a while later,
without a word, and with the exit code 1, which is a verdict here. So this is noticed first. Nothing can be tidied up
then: every call to Ray would wait for what is gone. Finished pieces are in their shards.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

SECONDS_BETWEEN = 1.0
HEAD_GONE = 30  # seconds; a head may come back, and Ray waits 60 for it
BAD_INPUT = 2  # what the command line exits with where something beside it is wrong


@contextmanager
def watched(places: Mapping[str, str]) -> Iterator[None]:
    """Watch where Ray says that its node and its head listen (`address_info`) for the time of the block."""
    done = threading.Event()
    for name, lost in {"raylet_socket_name": _lose_node, "gcs_address": _lose_head}.items():
        threading.Thread(target=_watch, args=(places[name], lost, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(place: str, lost: Callable[[str, threading.Event], None], done: threading.Event) -> None:
    lost(place, done)
    if done.is_set():
        return
    with suppress(OSError, ValueError):
        shown = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # the cursor that a progress bar hides
        sys.stderr.write(f"{shown}error: the Ray cluster is gone (nothing answers at {place})\n")
        sys.stderr.write("hint: the same command goes on once there is a cluster\n")
        sys.stderr.flush()
    os._exit(BAD_INPUT)


def _lose_node(place: str, done: threading.Event) -> None:
    """Wait until the node's process ends, and our connection with it; one that is made anew is a line in Ray's log."""
    if not os.path.isabs(place):  # Windows
        done.wait()
    while not done.wait(SECONDS_BETWEEN):
        with socket.socket(socket.AF_UNIX) as connection:
            if connection.connect_ex(place) in (errno.ECONNREFUSED, errno.ENOENT):
                return
            connection.settimeout(SECONDS_BETWEEN)
            while not done.is_set():
                try:
                    if not connection.recv(1):
                        break
                except TimeoutError:
                    pass
                except OSError:
                    break


def _lose_head(place: str, done: threading.Event) -> None:
    """Wait until the head has answered no connection for a while."""
    host, _, port = place.rpartition(":")
    silent = 0
    while silent < HEAD_GONE and not done.wait(SECONDS_BETWEEN):
        try:
            socket.create_connection((host.strip("[]"), int(port)), SECONDS_BETWEEN).close()
            silent = 0
        except OSError:
            silent += 1
