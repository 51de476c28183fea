"""A batch on several CPU cores: one part of it a core, instead of every operation on all of them.

Cores that work on parts of their own never wait for each other, which they do after each of a model's hundreds of
operations when they share one; on a machine with other work that costs more than the sharing gains. A single pair
has no parts: there all cores share, which answers it soonest.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from spotchange.answering import Answerer, AnswererCard, CaptionOptions, ImagePair, Outcome


class Workers:
    """An answerer that splits its batches over as many threads as the one it wraps is worth."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self.workers = answerer.workers
        self._threads = ThreadPoolExecutor(max_workers=self.workers, thread_name_prefix="worker")

    @property
    def card(self) -> AnswererCard:
        return self._answerer.card

    def set_threads(self, count: int) -> None:
        self._answerer.set_threads(count)

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Outcome]:
        """One answer per pair, in order."""
        if len(pairs) == 1:
            self._answerer.set_threads(self.workers)
            return list(self._answerer.answer(pairs, options))
        parts = split(pairs, self.workers)
        answered = [self._threads.submit(self._answer_part, part, options) for part in parts]
        return [answer for each in answered for answer in each.result()]

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown()

    def _answer_part(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Outcome]:
        self._answerer.set_threads(1)  # also for the matrix library, hence anew for every part
        return list(self._answerer.answer(pairs, options))


def split(pairs: Sequence[ImagePair], parts: int) -> list[Sequence[ImagePair]]:
    """At most so many parts, none empty, sizes at most one apart."""
    parts = min(parts, len(pairs))
    bounds = [len(pairs) * number // parts for number in range(parts + 1)]
    return [pairs[start:end] for start, end in pairwise(bounds)]
