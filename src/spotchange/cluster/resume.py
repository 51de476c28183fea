"""Work that goes on after a kill: finished pieces lie in shards, and are looked at again, not made again.

Every line that is kept carries the fingerprint of what it was made from. A run that goes on sends these fingerprints
along: a worker that finds the same one now says so, and the line of the earlier run is taken; all else is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from spotchange.cluster.shards import ShardedLines
from spotchange.cluster.work import ClusterOptions, Piece, pieces, run_here, run_on_ray

Line = dict[str, Any]
MARK = "fingerprint"
READERS = 4  # threads that look at files again: a store answers slowly, but many at a time


class MarkedWork(Protocol):
    """What workers do, as `Work`; results are lines of JSON with the `id` of their item."""

    @property
    def batch_size(self) -> int:
        """Items computed together."""
        ...

    def start(self) -> Callable[[Sequence[Any]], Iterable[Line]]:
        """Load what is needed; what comes back gives one line for each item, in order."""
        ...

    def failed(self, item: Any, reason: str) -> Line:
        """The line of an item that no worker survives."""
        ...

    def settings(self) -> Any:
        """What all lines depend on, as values of JSON."""
        ...

    def names(self, item: Any) -> Any:
        """What an item is, as values of JSON, without a look at files."""
        ...

    def fingerprint(self, item: Any) -> str | None:
        """Of the content of an item's files, and of the settings; None where they cannot be read."""
        ...


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """How a run keeps what it has made, and what it may take from an earlier one."""

    shards: ShardedLines
    known: Iterable[Line] = ()
    """Lines of an earlier run that are not in shards; those with a fingerprint may be taken."""
    told: Callable[[str], None] = lambda text: None
    """Told in one line what is gone on with."""


def lines_of(
    work: MarkedWork,
    items: Mapping[str, Any],
    *,
    cluster: ClusterOptions | None,
    kept: Resumption | None = None,
    completed: Callable[[list[Any], list[Line]], list[Line]] = lambda items, lines: lines,
    started: Callable[[int], None] = lambda workers: None,
) -> Iterator[tuple[int, list[Line]]]:
    """The numbers and the lines of pieces of the items, each as soon as it is there: `in_order` puts them in order.

    Args:
        work: what is done with the items.
        items: by the `id` of their line.
        cluster: whose workers compute; None: this process.
        kept: where finished pieces are kept; None: nowhere, and a run that is killed begins anew.
        completed: does here what cannot be done by workers, with the new lines of a piece before they are kept.
        started: told the number of workers when there is a cluster.
    """
    cut = pieces(list(items), work.batch_size)
    keys = [_key(work, [items[name] for name in piece]) for piece in cut] if kept else []
    earlier = _earlier(kept, keys, len(items)) if kept else {}
    wanted: dict[int, Piece] = {
        number: [(items[name], earlier.get(name, {}).get(MARK)) for name in piece] for number, piece in enumerate(cut)
    }
    marked = _Marked(work, marks=kept is not None)
    run = run_here(marked, wanted) if cluster is None else run_on_ray(marked, wanted, cluster, started=started)
    try:
        for number, found in run if items else ():
            new = [(item, line) for (item, _), line in zip(wanted[number], found, strict=True) if line is not None]
            done = iter(_completed(completed, [item for item, _ in new], [line for _, line in new]))
            pairs = zip(cut[number], found, strict=True)
            lines = [earlier[name] if line is None else next(done) for name, line in pairs]
            if kept:
                kept.shards.add(number, keys[number], lines)
            yield number, lines
    finally:
        if kept and len(kept.shards):
            kept.shards.save()


@dataclass(frozen=True)
class _Marked:
    """Work on items with the fingerprint that their earlier line has; None in place of a line that still holds."""

    work: MarkedWork
    marks: bool

    def start(self) -> Callable[[Sequence[tuple[Any, str | None]]], Iterator[Line | None]]:
        do = self.work.start()

        def lines(given: Sequence[tuple[Any, str | None]]) -> Iterator[Line | None]:
            holds = self._holds(given)
            fresh = iter(do([item for (item, _), same in zip(given, holds, strict=True) if not same]))
            for (item, _), same in zip(given, holds, strict=True):
                yield None if same else self._marked(item, next(fresh))

        return lines

    def failed(self, item: tuple[Any, str | None], reason: str) -> Line:
        return self.work.failed(item[0], reason)

    def _holds(self, given: Sequence[tuple[Any, str | None]]) -> list[bool]:
        if all(mark is None for _, mark in given):
            return [False] * len(given)
        with ThreadPoolExecutor(max_workers=READERS) as readers:
            now = readers.map(lambda each: each[1] and self.work.fingerprint(each[0]), given)
            return [mark is not None and mark == found for (_, mark), found in zip(given, now, strict=True)]

    def _marked(self, item: Any, line: Line) -> Line:
        mark = self.work.fingerprint(item) if self.marks and "error" not in line else None
        return line if mark is None else line | {MARK: mark}


def _completed(
    completed: Callable[[list[Any], list[Line]], list[Line]], items: list[Any], lines: list[Line]
) -> list[Line]:
    marks = [{MARK: line[MARK]} if MARK in line else {} for line in lines]
    return [line | mark for line, mark in zip(completed(items, lines), marks, strict=True)]


def _earlier(kept: Resumption, keys: Sequence[str], items: int) -> dict[str, Line]:
    """Lines by name that may be taken if their files are still the same; those with an error have no fingerprint."""
    whole = (kept.shards.whole(number, key) or () for number, key in enumerate(keys))
    left = [line for line in chain.from_iterable(whole) if MARK in line]
    if left:
        kept.told(f"{kept.shards.folder}: going on, {len(left)} of {items} rows are there")
    elif len(kept.shards):
        kept.told(f"{kept.shards.folder}: nothing there was made from these inputs and settings; beginning anew")
    return {line["id"]: line for line in chain(kept.known, left) if MARK in line}


def _key(work: MarkedWork, piece: Sequence[Any]) -> str:
    """What the lines of a piece are made from."""
    values = [work.settings(), work.batch_size, [work.names(item) for item in piece]]
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()
