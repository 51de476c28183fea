"""The endless stream of everyday pairs with their truth, on any device; it can go on from where it stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotchange.everyday.imaging.chance import Draws
from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.kinds import SHARES
from spotchange.everyday.language.writing import write_frames
from spotchange.everyday.library import Library
from spotchange.everyday.sampling import draw_scenes
from spotchange.everyday.truth import truth_of
from spotchange.pairs import PairBatch

_SPLIT_SEEDS = {"train": 0, "val": 500_009, "test": 900_007}


@dataclass(frozen=True, kw_only=True)
class EverydayBatch(PairBatch):
    """Pairs of everyday images with what the compositor knows; no field is ever missing."""

    mask_known: Tensor  # bool (N,): whether the change has a place
    nouns: Tensor  # int64 (N, 2): of the thing that changes; -1 where it is not
    patch_nouns: Tensor  # int64 (N, 2, patches)
    windows: Tensor  # float (N, 2, 4)
    window_nouns: Tensor  # int64 (N, 2)
    window_colours: Tensor  # int64 (N, 2)


class EverydayStream:
    """Batches of everyday pairs; none is drawn twice."""

    paired = False
    shares_before = False

    def __init__(
        self,
        library: Library,
        *,
        pairs: int,
        side: int,
        grid: tuple[int, int],
        seed: int,
        split: str = "train",
        rank: int = 0,
        processes: int = 1,
        shares: Mapping[str, float] = SHARES,
    ) -> None:
        self.library, self.pairs, self.side, self.grid = library, pairs, side, grid
        self.seed, self.shares = seed + _SPLIT_SEEDS[split], shares
        self.rank, self.processes = rank, processes
        self.drawn = 0  # batches

    def next_batch(self) -> EverydayBatch:
        """The next pairs."""
        first = (self.drawn * self.processes + self.rank) * self.pairs
        self.drawn += 1
        return self.batch(torch.arange(first, first + self.pairs, device=self.library.device))

    @torch.no_grad()
    def batch(self, numbers: Tensor) -> EverydayBatch:
        """Pairs by their numbers."""
        scenes = draw_scenes(self.library, numbers, seed=self.seed, shares=self.shares)
        images = compose(self.library, scenes, side=self.side)
        truth = truth_of(self.library, scenes, images, grid=self.grid)
        ids, mask = write_frames(truth.kind.clamp(min=0), truth.facts, Draws(self.seed + 2, scenes.numbers).one())
        return EverydayBatch(
            before=images.pixels[:, 0],
            after=images.pixels[:, 1],
            caption_ids=ids,
            caption_mask=mask,
            change_type=truth.kind,
            scene_id=scenes.numbers,
            change_mask=truth.mask,
            mask_known=truth.mask_known,
            nouns=truth.nouns,
            patch_nouns=truth.patch_nouns,
            windows=truth.windows,
            window_nouns=truth.window_nouns,
            window_colours=truth.window_colours,
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands."""
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.drawn = state["drawn"]
