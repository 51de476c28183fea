"""A batch on several CPU cores: one part of it a core, instead of every operation on all of them.

Cores that work on parts of their own never wait for each other, which they do after each of a model's hundreds of
operations when they share one; on a machine with other work that costs more than the sharing gains. A single pair
has no parts: there all cores share, which answers it soonest.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

from spotchange.answering import Answer, CaptionOptions
from spotchange.serving.engine.queue import AnswersPictures, PicturePair


class Lanes:
    """Answers batches on as many threads as torch was given."""

    def __init__(self, captioner: AnswersPictures, *, lanes: int) -> None:
        self._captioner = captioner
        self._lanes = lanes
        self._threads = ThreadPoolExecutor(max_workers=lanes, thread_name_prefix="lane")

    def answer_pictures(self, pairs: Sequence[PicturePair], *, options: CaptionOptions) -> list[Answer]:
        """One answer a pair, in order."""
        if len(pairs) == 1:
            torch.set_num_threads(self._lanes)
            return self._captioner.answer_pictures(pairs, options=options)
        parts = split(pairs, self._lanes)
        answered = [self._threads.submit(self._answer_part, part, options) for part in parts]
        return [answer for each in answered for answer in each.result()]

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown()

    def _answer_part(self, pairs: Sequence[PicturePair], options: CaptionOptions) -> list[Answer]:
        torch.set_num_threads(1)  # for this thread; also for the matrix library, hence anew for every part
        return self._captioner.answer_pictures(pairs, options=options)


def split(pairs: Sequence[PicturePair], parts: int) -> list[Sequence[PicturePair]]:
    """At most so many parts, none empty, sizes at most one apart."""
    parts = min(parts, len(pairs))
    bounds = [len(pairs) * number // parts for number in range(parts + 1)]
    return [pairs[start:end] for start, end in pairwise(bounds)]
