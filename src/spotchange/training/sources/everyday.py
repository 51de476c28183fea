"""Everyday things pasted on photos and rooms as a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spotchange.everyday.language.wording import frame_text
from spotchange.everyday.library import read_library
from spotchange.everyday.stream import EverydayStream
from spotchange.pairs import PairBatch
from spotchange.training.sources.interface import HeldOut, NoNegatives, RunContext


@dataclass(frozen=True, kw_only=True)
class EverydayPairs(NoNegatives):
    """Pairs composed while training runs, none seen twice."""

    library: Path
    split: str
    """Of the library: things and backgrounds of this split alone."""
    shares: Mapping[str, float]
    """How often kinds of change are drawn, relative to each other."""
    most_objects: int | None = None
    most_backgrounds: int | None = None

    def captions(self) -> Iterable[str]:
        return ()

    def batches(self, run: RunContext, pairs: int) -> EverydayStream:
        return self._stream(run, pairs, "train", rank=run.rank, processes=run.processes)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut:
        """Pairs of a split that all processes share; their frames are the references."""
        stream = self._stream(run, min(at_once, pairs), split)
        batches: list[PairBatch] = [stream.next_batch() for _ in range(max(1, pairs // stream.pairs))]
        references = [[frame_text(ids)] for batch in batches for ids in batch.caption_ids.tolist()]
        return HeldOut(batches=batches, references=references)

    def _stream(self, run: RunContext, pairs: int, split: str, *, rank: int = 0, processes: int = 1) -> EverydayStream:
        library = read_library(
            self.library,
            split=self.split,
            device=run.device,
            most_objects=self.most_objects,
            most_backgrounds=self.most_backgrounds,
        )
        return EverydayStream(
            library,
            pairs=pairs,
            side=run.image_size[0],
            grid=run.grid,
            seed=run.seed,
            split=split,
            rank=rank,
            processes=processes,
            shares=self.shares,
        )
