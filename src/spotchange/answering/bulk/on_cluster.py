"""Many pairs on a cluster: what a worker does with them, and their lines in shards that become one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spotchange.answering.build import LoadOptions, load
from spotchange.answering.bulk.fingerprint import pair_fingerprint
from spotchange.answering.bulk.one_machine import NamedPair, Tally, caption_pairs, check_ids, earlier_lines
from spotchange.answering.bulk.spending import counted, with_spending
from spotchange.answering.interface import CaptionOptions, Usage
from spotchange.cluster import ClusterOptions, Line, Resumption, ShardedLines, in_order, lines_of
from spotchange.locks import one_writer


@dataclass(frozen=True, kw_only=True)
class CaptionWork:
    """Pairs to lines, as `caption_pairs` makes them on one machine."""

    model: str
    load: LoadOptions
    options: CaptionOptions
    batch_size: int
    asked: str | None = None
    """`asked_fingerprint`, where lines carry fingerprints."""

    def start(self) -> Callable[[Sequence[NamedPair]], Iterator[Line]]:
        """Load the model."""
        loaded = load(
            self.model,
            device=self.load.device,
            threads=self.load.threads,
            runtime=self.load.runtime,
            model_options=self.load.model_options,
        )

        def lines(pairs: Sequence[NamedPair]) -> Iterator[Line]:
            made = caption_pairs(loaded, pairs, options=self.options, batch_size=self.batch_size)
            return with_spending(loaded.usage, made)

        return lines

    def failed(self, item: NamedPair, reason: str) -> Line:
        """The error row of a pair that no worker survives."""
        return {"id": item.id, "error": reason}

    def settings(self) -> str | None:
        """Model and options."""
        return self.asked

    def names(self, item: NamedPair) -> list[str]:
        """The pair and where it lies."""
        return [item.id, str(item.before), str(item.after)]

    def fingerprint(self, item: NamedPair) -> str | None:
        """Of both images, asked about in this way."""
        return None if self.asked is None else pair_fingerprint(self.asked, item.before, item.after)


def lines_from_cluster(
    work: CaptionWork,
    pairs: Sequence[NamedPair],
    cluster: ClusterOptions,
    *,
    usage: Usage | None = None,
    started: Callable[[int], None] = lambda workers: None,
) -> Iterator[Line]:
    """One line a pair, in order; nothing is kept, so two pairs may have one id."""
    items = {str(number): pair for number, pair in enumerate(pairs)}
    for lines in in_order(lines_of(work, items, cluster=cluster, completed=counted(usage), started=started)):
        yield from lines


def write_from_cluster(
    work: CaptionWork,
    pairs: Sequence[NamedPair],
    out: Path,
    cluster: ClusterOptions | None,
    *,
    advance: Callable[[int], None],
    usage: Usage | None = None,
    started: Callable[[int], None] = lambda workers: None,
    told: Callable[[str], None] = lambda text: None,
    force: bool = False,
) -> Tally:
    """Write `out` as `write_results` does, from a cluster, or (None) from here to a store.

    Lines of an earlier `out`, and of shards that a stopped run left, are used again where the images, the model and
    the options are the same: workers look at the images' bytes and compute only what is new. With `force`
    everything is made anew. What workers spend on asking is added to `usage`.
    """
    check_ids(pairs)
    tally, pieces = Tally(), 0
    with one_writer(out):
        shards = ShardedLines(out, anew=force)
        kept = Resumption(shards=shards, known=() if force else earlier_lines(out), told=told)
        items = {pair.id: pair for pair in pairs}
        # In whatever order they come: shards have it, and what waits for a lost piece would fill the memory.
        for _, lines in lines_of(work, items, cluster=cluster, kept=kept, completed=counted(usage), started=started):
            tally.add(lines)
            advance(len(lines))
            pieces += 1
        shards.merge(pieces)
        out.with_name(out.name + ".partial").unlink(missing_ok=True)
    return tally
