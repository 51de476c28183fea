"""Pairs of files on a cluster: what a worker does with them, and rows that are kept until all are there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spotchange import __version__
from spotchange.answering.bulk.fingerprint import pair_fingerprint
from spotchange.answering.bulk.spending import counted, with_spending
from spotchange.answering.interface import Usage
from spotchange.cluster import ClusterOptions, Line, Resumption, in_order, lines_of
from spotchange.regression.one_pair import ComparedFile, Job, compare_one
from spotchange.regression.wording import WORDED_TOGETHER, Wording, in_words

TOGETHER = 8  # pairs without a model: a piece of the work is a few times as many


@dataclass(frozen=True, kw_only=True)
class CompareWork:
    """Pairs of files to what became of them."""

    words: Wording | None = None
    """The model that words what changed."""

    @property
    def batch_size(self) -> int:
        """Pieces of whole batches: the same pairs are shown to the model together as on one machine."""
        return TOGETHER if self.words is None else WORDED_TOGETHER

    def start(self) -> Callable[[Sequence[Job]], Iterator[Line]]:
        """Pixels decide; the model is loaded where one words what changed."""
        if self.words is None:
            return lambda jobs: (compare_one(job).to_line() for job in jobs)
        captioner = self.words.start()

        def worded(jobs: Sequence[Job]) -> Iterator[Line]:
            found = ((compare_one(job), job) for job in jobs)
            return with_spending(captioner.usage, (each.to_line() for each in in_words(found, captioner)))

        return worded

    def failed(self, item: Job, reason: str) -> Line:
        """The error row of a pair that no worker survives."""
        return ComparedFile(name=item.name, status="failed", error=reason).to_line()

    def settings(self) -> list[str]:
        """This version, and who words."""
        return [__version__, self._worded_by]

    def names(self, item: Job) -> list[Any]:
        """The pair, how it is compared, and where what it leaves is written."""
        outputs = item.outputs
        written = [str(outputs.diff_dir), outputs.pair_view is not None, str(outputs.files_dir), outputs.link]
        return [item.name, str(item.before), str(item.after), asdict(item.options), written]

    def fingerprint(self, item: Job) -> str | None:
        """Of both images, and of whether what the pair left is still there."""
        mark = pair_fingerprint(self._worded_by, item.before, item.after)
        if mark is None:
            return None
        left = [path.is_file() for path in item.outputs.written(item.name)]
        return hashlib.sha256(f"{mark}{left}".encode()).hexdigest()[: len(mark)]

    @property
    def _worded_by(self) -> str:
        return "" if self.words is None else self.words.asked


def compare_on_cluster(
    jobs: Sequence[Job], cluster: ClusterOptions, *, words: Wording | None, usage: Usage | None, kept: Resumption | None
) -> Iterator[ComparedFile]:
    """In the order of the jobs; what workers spend on asking is added to `usage`."""
    items = {job.name: job for job in jobs}
    for lines in in_order(
        lines_of(CompareWork(words=words), items, cluster=cluster, kept=kept, completed=counted(usage))
    ):
        yield from map(ComparedFile.from_line, lines)
