"""What a verb hands to a cluster: items in pieces, and what a worker does with them.

Whoever meets `Work` runs on Ray. The plain path does not pass through here: on one machine a verb calls the same
function on the same items itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from spotchange.errors import InputError, MissingExtraError

Do = Callable[[Sequence[Any]], Iterable[Any]]
Piece = Sequence[Any]

PIECES = 64  # a run is cut into about so many: enough to share among workers, and to lose little with one
BATCHES_A_PIECE = 4  # at least, so that a worker reads images of the next batch while it computes this one
MOST_ITEMS = 1024  # of a piece
SECONDS_TO_ANSWER = 5.0  # of an address, before it counts as wrong
SETTINGS = b"\x04"  # the kind of frame with which either side of HTTP/2, and so of gRPC, begins
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00" + SETTINGS + b"\x00" * 5


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Where and with how much a run computes."""

    address: str | None = None
    """Of a Ray cluster, such as 10.0.0.1:6379; None: a cluster on this machine for the time of the run."""
    workers: int | None = None
    """None: one for each core of the cluster, or for each GPU where workers take any."""
    gpus_per_worker: float = 0.0


class Work(Protocol):
    """What workers do. It travels to them by pickle and is started once in each."""

    def start(self) -> Do:
        """Load what is needed; what comes back gives one result for each item, in order."""
        ...

    def failed(self, item: Any, reason: str) -> Any:
        """The result of an item that no worker survives."""
        ...


def check_reachable(options: ClusterOptions) -> None:
    """Refuse what cannot work, before anything is made or written; Ray waits long for an address nobody listens at."""
    if find_spec("ray") is None:
        raise MissingExtraError("--engine ray", extra="ray")
    address = options.address
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "://" in host or not port.isdecimal():
        raise InputError(f"--address {address!r} is not HOST:PORT", hint="the head node prints it: ray start --head")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER) as connection:
            _check_grpc(connection)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"no Ray cluster answers at {address} ({reason})", hint="start one: ray start --head"
        ) from error


def _check_grpc(connection: socket.socket) -> None:
    """Refuse a server of another kind: Ray would wait for it without end, and could not be stopped."""
    if os.environ.get("RAY_USE_TLS", "0") not in ("0", "false", "False"):
        return  # no word before a handshake
    connection.sendall(GREETING)
    if connection.makefile("rb").read(4)[3:] != SETTINGS:
        raise OSError("what listens there is something else")


def pieces(items: Sequence[Any], batch_size: int = 1, *, most: int = MOST_ITEMS) -> list[Piece]:
    """Consecutive items in pieces of whole batches, so that the same pairs are computed together as on one machine.

    The cut depends on the items alone, never on the workers: a run goes on with another number of them. `most` is
    for results that are large: those of a piece are held together, and lost together.
    """
    fair = -(-len(items) // PIECES)
    size = max(1, min(most, max(BATCHES_A_PIECE * batch_size, fair)) // batch_size) * batch_size
    return [items[first : first + size] for first in range(0, len(items), size)]


def in_order(found: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """What belongs to the numbers 0, 1, 2 and so on; what comes too early waits."""
    waiting: dict[int, Any] = {}
    wanted = 0
    for number, each in found:
        waiting[number] = each
        while wanted in waiting:
            yield waiting.pop(wanted)
            wanted += 1


def run_here(work: Work, wanted: dict[int, Piece]) -> Iterator[tuple[int, list[Any]]]:
    """The same in this process."""
    do = work.start()
    for number, piece in wanted.items():
        yield number, list(do(piece))


def run_on_ray(
    work: Work,
    wanted: dict[int, Piece],
    options: ClusterOptions,
    *,
    started: Callable[[int], None] = lambda workers: None,
) -> Iterator[tuple[int, list[Any]]]:
    """The results of numbered pieces, each piece once, nearly in their order.

    Args:
        work: what is done with the items.
        wanted: pieces by number.
        options: the cluster.
        started: told the number of workers when there is a cluster.
    """
    check_reachable(options)
    from spotchange.cluster.ray_engine import run

    return run(work, wanted, options, started)
