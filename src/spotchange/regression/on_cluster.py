"""Pairs of files on a cluster: what a worker does with them, and rows that are kept until all are there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spotchange import __version__
from spotchange.answering.bulk.fingerprint import pair_fingerprint
from spotchange.cluster import ClusterOptions, Line, Resumption, in_order, lines_of
from spotchange.regression.one_pair import ComparedFile, Job, compare_one
from spotchange.regression.wording import WORDED_TOGETHER, in_words

if TYPE_CHECKING:
    from spotchange.answering import Captioner

TOGETHER = 8  # pairs without a model: a piece of the work is a few times as many


@dataclass(frozen=True, kw_only=True)
class CompareWork:
    """Pairs of files to what became of them."""

    worded_by: str = ""
    """Fingerprint of the model that words them afterwards."""
    batch_size: int = TOGETHER

    def start(self) -> Callable[[Sequence[Job]], Iterator[Line]]:
        """Nothing to load: pixels decide."""
        return lambda jobs: (compare_one(job).to_line() for job in jobs)

    def failed(self, item: Job, reason: str) -> Line:
        """The error row of a pair that no worker survives."""
        return ComparedFile(name=item.name, status="failed", error=reason).to_line()

    def settings(self) -> list[str]:
        """This version, and who words."""
        return [__version__, self.worded_by]

    def names(self, item: Job) -> list[Any]:
        """The pair, how it is compared, and where what it leaves is written."""
        outputs = item.outputs
        written = [str(outputs.diff_dir), outputs.pair_view is not None, str(outputs.files_dir), outputs.link]
        return [item.name, str(item.before), str(item.after), asdict(item.options), written]

    def fingerprint(self, item: Job) -> str | None:
        """Of both images, and of whether what the pair left is still there."""
        mark = pair_fingerprint(self.worded_by, item.before, item.after)
        if mark is None:
            return None
        left = [path.is_file() for path in item.outputs.written(item.name)]
        return hashlib.sha256(f"{mark}{left}".encode()).hexdigest()[: len(mark)]


def compare_on_cluster(
    jobs: Sequence[Job],
    cluster: ClusterOptions,
    *,
    captioner: Captioner | None,
    kept: Resumption | None,
    worded_by: str,
) -> Iterator[ComparedFile]:
    """In the order of the jobs. The model is asked here, a piece at a time, and what it said is kept too."""

    def worded(given: list[Job], lines: list[Line]) -> list[Line]:
        if captioner is None or not given:
            return lines
        found = [ComparedFile.from_line(line) for line in lines]
        return [each.to_line() for each in in_words(zip(found, given, strict=True), captioner)]

    # Pieces of whole batches: the same pairs are shown to the model together as on one machine.
    work = CompareWork(worded_by=worded_by, batch_size=TOGETHER if captioner is None else WORDED_TOGETHER)
    items = {job.name: job for job in jobs}
    for lines in in_order(lines_of(work, items, cluster=cluster, kept=kept, completed=worded)):
        yield from map(ComparedFile.from_line, lines)
