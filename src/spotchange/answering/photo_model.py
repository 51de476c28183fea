"""What the trained everyday model sees in two photos: how surely something changed, which kind, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from spotchange.answering.calibration import Calibration
from spotchange.answering.interface import Heat
from spotchange.answering.pair import ImagePair
from spotchange.answering.runtimes.choose import start_runtime
from spotchange.answering.runtimes.interface import Floats, NamingRuntime
from spotchange.everyday.kinds import KINDS


@dataclass(frozen=True, kw_only=True, eq=False)
class PhotoView:
    """Of one pair."""

    score: float  # probability that anything changed
    changed: bool  # whether that reaches the model's threshold
    kinds: Mapping[str, float]  # of every kind but none, given that something changed
    heat: Heat  # (2, rows, columns)

    @property
    def kind(self) -> str:
        """The likeliest kind of change."""
        return max(self.kinds, key=lambda each: self.kinds[each])


class PhotoModel:
    """The shipped everyday model's network. It is opened while the caller goes on, and waited for when it is asked."""

    def __init__(
        self, folder: Path, *, runtime: str = "auto", device: str = "auto", threads: int | None = None
    ) -> None:
        self._waiting = start_runtime(folder, runtime=runtime, device=device, threads=threads)
        self._calibration = Calibration.read(folder)

    def __call__(self, pair: ImagePair, *, threshold: float | None = None) -> PhotoView:
        """Both photos at once."""
        encoded = self.runtime.encode([pair.before.pil], [pair.after.pil])
        assert encoded.change_logits is not None
        score = float(self._calibration.change_scores(encoded.change_logits)[0])
        odds = np.exp(encoded.change_logits[0, 1:] - encoded.change_logits[0, 1:].max())
        return PhotoView(
            score=score,
            changed=score >= (self._calibration.threshold if threshold is None else threshold),
            kinds=dict(zip(KINDS[1:], (odds / odds.sum()).tolist(), strict=True)),
            heat=encoded.heat[0],
        )

    def name_windows(self, windows: Sequence[Image.Image]) -> Floats:
        """A second look at single things: scores (windows, nouns + 1)."""
        return self.runtime.name_windows(windows)[0]

    @cached_property
    def runtime(self) -> NamingRuntime:
        return self._waiting()
