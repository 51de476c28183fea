"""Many pairs on a cluster: what a worker does with them, and their lines in shards that become one file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from spotchange.answering.build import LoadOptions, load
from spotchange.answering.bulk.fingerprint import pair_fingerprint
from spotchange.answering.bulk.one_machine import NamedPair, Tally, caption_pairs, check_ids, earlier_lines
from spotchange.answering.captioner import READERS
from spotchange.answering.interface import CaptionOptions
from spotchange.cluster import ClusterOptions, ShardedLines, in_order, pieces, run_here, run_on_ray
from spotchange.locks import one_writer

Line = dict[str, Any]
Item = tuple[NamedPair, str | None]
"""A pair, and the fingerprint its line of an earlier run has."""
KEPT = "kept"  # in place of a line: that of the earlier run still holds


@dataclass(frozen=True, kw_only=True)
class CaptionWork:
    """Pairs to lines, as `caption_pairs` makes them on one machine."""

    model: str
    load: LoadOptions
    options: CaptionOptions
    batch_size: int
    asked: str | None = None
    """`asked_fingerprint`, where lines carry fingerprints."""

    def start(self) -> Callable[[Sequence[Item]], Iterator[Line]]:
        """Load the model."""
        loaded = load(
            self.model,
            device=self.load.device,
            threads=self.load.threads,
            runtime=self.load.runtime,
            model_options=self.load.model_options,
        )

        def lines(items: Sequence[Item]) -> Iterator[Line]:
            kept = self._kept(items)
            wanted = [pair for pair, _ in items if pair.id not in kept]
            fresh = caption_pairs(loaded, wanted, options=self.options, batch_size=self.batch_size)
            for pair, _ in items:
                yield {"id": pair.id, KEPT: True} if pair.id in kept else self._marked(pair, next(fresh))

        return lines

    def failed(self, item: Item, reason: str) -> Line:
        """The error row of a pair that no worker survives."""
        return {"id": item[0].id, "error": reason}

    def _kept(self, items: Sequence[Item]) -> set[str]:
        known = [(pair, mark) for pair, mark in items if mark is not None]
        if not known or self.asked is None:
            return set()
        asked = self.asked
        with ThreadPoolExecutor(max_workers=READERS) as readers:
            now = readers.map(lambda each: pair_fingerprint(asked, each[0].before, each[0].after), known)
            return {pair.id for (pair, mark), found in zip(known, now, strict=True) if found == mark}

    def _marked(self, pair: NamedPair, line: Line) -> Line:
        mark = None
        if self.asked is not None and "error" not in line:
            mark = pair_fingerprint(self.asked, pair.before, pair.after)
        return line if mark is None else line | {"fingerprint": mark}


def lines_from_cluster(
    work: CaptionWork, pairs: Sequence[NamedPair], cluster: ClusterOptions, *, started: Callable[[int], None]
) -> Iterator[Line]:
    """One line a pair, in order."""
    cut = pieces([(pair, None) for pair in pairs], work.batch_size)
    for lines in in_order(run_on_ray(work, dict(enumerate(cut)), cluster, started=started)):
        yield from lines


def write_from_cluster(
    work: CaptionWork,
    pairs: Sequence[NamedPair],
    out: Path,
    cluster: ClusterOptions | None,
    *,
    advance: Callable[[int], None],
    started: Callable[[int], None] = lambda workers: None,
    force: bool = False,
) -> Tally:
    """Write `out` as `write_results` does, from a cluster, or (None) from here to a store.

    Lines of an earlier `out`, and of shards that a stopped run left, are used again where the images, the model and
    the options are the same: workers look at the images' bytes and compute only what is new. With `force`
    everything is made anew.
    """
    check_ids(pairs)
    tally = Tally()
    with one_writer(out):
        shards = ShardedLines(out, anew=force)
        unmarked: list[Item] = [(pair, None) for pair in pairs]
        keys = [_key(work, piece) for piece in pieces(unmarked, work.batch_size)]
        left = (line for number, key in enumerate(keys) for line in shards.whole(number, key) or ())
        found_before = () if force else chain(earlier_lines(out), left)
        earlier = {line["id"]: line for line in found_before if "fingerprint" in line}
        items: list[Item] = [(pair, earlier.get(pair.id, {}).get("fingerprint")) for pair in pairs]
        cut = pieces(items, work.batch_size)
        wanted = dict(enumerate(cut))
        try:
            run = run_here(work, wanted) if cluster is None else run_on_ray(work, wanted, cluster, started=started)
            for number, found in run:
                lines = [earlier[line["id"]] if KEPT in line else line for line in found]
                shards.add(number, keys[number], lines)
                tally.add(lines)
                advance(len(lines))
        finally:
            shards.save()
        shards.merge(len(cut))
        out.with_name(out.name + ".partial").unlink(missing_ok=True)
    return tally


def _key(work: CaptionWork, piece: Sequence[Item]) -> str:
    """What the lines of a piece are made from."""
    names = [(pair.id, str(pair.before), str(pair.after)) for pair, _ in piece]
    return hashlib.sha256(json.dumps([work.asked, work.batch_size, names]).encode()).hexdigest()
