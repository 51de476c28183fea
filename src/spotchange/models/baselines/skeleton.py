"""One skeleton for the published systems: grid features -> pair encoder -> difference -> speaker.

A `System` is what a paper describes, under the published program's own names of weights; `Baseline` puts the frozen
network in front of it and offers what every captioning model offers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spotchange.models.decoding import search as decoding
from spotchange.models.decoding.arrays import NEVER
from spotchange.models.decoding.torch_arrays import TorchArrays
from spotchange.models.interface import DecodingOptions, Generated, VisualState
from spotchange.models.vision.grid_features import GridFeatures

# All (pairs, ...); "memory" (pairs, tokens, width) is what the speaker reads. A system with a map over each image, of
# where it shows the change, calls them "map_before" and "map_after" (pairs, cells).
Seen = dict[str, Tensor]
Reading = dict[str, Tensor]  # all (pairs, ...); "logits" (pairs, words, vocabulary) among them


class System(nn.Module, ABC):
    """One system of the papers' tables, on the grid features (pairs, cells, channels) of both images."""

    title: ClassVar[str]
    """As tables show it: "after NAME" where only a paper or its abstract is known."""
    published: ClassVar[str | None] = None
    """Its name among the published rows."""
    weights: ClassVar[dict[str, float]] = {}
    """Auxiliary losses by name, with the published weights."""
    swap: ClassVar[float] = 0.5
    """How often training exchanges "before" and the distractor, as published."""
    says_unknown: ClassVar[bool] = True
    """Whether its program may choose the unknown word."""
    least_words: ClassVar[int] = 0
    """So many words its program says before it may end."""
    as_published = False
    """Whether mistakes of the published program are repeated."""

    @classmethod
    def faithful(cls) -> bool:
        """Whether the code was known, so that its row may be compared with the published one."""
        return not cls.title.startswith("after ")

    @abstractmethod
    def look(self, before: Tensor, after: Tensor) -> Seen:
        """Pair encoder and difference: what the speaker reads ("memory") and what the losses need."""

    @abstractmethod
    def read(self, seen: Seen, ids: Tensor, mask: Tensor) -> Reading:
        """The speaker with the true words `ids` (pairs, words), `mask` True on words: scores of the word after each."""

    @abstractmethod
    def steps(self, seen: Seen, rows_per_pair: int) -> decoding.Steps:
        """The speaker word by word, `rows_per_pair` sentences for each pair."""

    def auxiliary(self, seen: Seen, reading: Reading, ids: Tensor, mask: Tensor, *, changed: bool) -> dict[str, Tensor]:
        """Auxiliary losses of change pairs, or of distractor pairs; a name may be left out for one of the two."""
        return {}

    def take_words(self, words: list[str]) -> None:
        """Look at the vocabulary, once, where labels of words are learnt."""

    def heat(self, seen: Seen) -> Tensor | None:
        """(pairs, 2, cells), at least 0: where each image shows the change; None: the system does not say."""
        if "map_before" not in seen:
            return None
        return torch.stack([seen["map_before"], seen["map_after"]], dim=1)

    def after_step(self) -> None:
        """What must hold after every update of the weights."""


class Baseline(nn.Module):
    """A `CaptioningModel`: a frozen network's grid features and a system on top of them."""

    change_head = None

    def __init__(
        self,
        *,
        image_size: tuple[int, int],
        grid: tuple[int, int],
        encoder: GridFeatures,
        system: System,
        special: decoding.SpecialIds,
        context: int,
        unknown: int | None = None,
    ) -> None:
        super().__init__()
        self.image_size, self.grid = image_size, grid
        self.special, self.context, self.unknown = special, context, unknown
        self.encoder = encoder
        self.system = system

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        """Images (pairs, 3, height, width), or their features (pairs, cells, channels) from disk."""
        if before.ndim == 4:
            cells = self.encoder(before, after)
            before, after = cells[:, 0], cells[:, 1]
        seen = self.system.look(before, after)
        features = torch.cat([before.mean(dim=1), after.mean(dim=1)], dim=-1)
        if not self.training:  # for heat maps of systems that have none of their own
            seen = {**seen, "cell_distance": 1 - F.cosine_similarity(before, after, dim=-1)}
        return VisualState(tokens=seen["memory"], grid=self.grid, features=features, extras=seen)

    def caption_logits(self, state: VisualState, ids: Tensor) -> Tensor:
        """Scores of the word after each of `ids` (pairs, words): (pairs, words, vocabulary)."""
        return self.system.read(state.extras, ids, ids != self.special.pad)["logits"]

    @torch.inference_mode()
    def generate(self, state: VisualState, options: DecodingOptions) -> Generated:
        """Sentences as token ids, of words that the system's program lets be chosen."""
        options = decoding.checked(options, context=self.context)
        options = replace(options, min_words=max(options.min_words, self.system.least_words))
        if self.unknown is not None and not self.system.says_unknown:
            options = replace(options, word_penalties=(*options.word_penalties, (self.unknown, -NEVER)))
        steps = self.system.steps(state.extras, decoding.rows_per_pair(options))
        return decoding.generate(steps, len(state), self.special, options, TorchArrays(state.tokens.device))

    def change_logits(self, state: VisualState) -> Tensor | None:
        """None: these systems say whether something changed in words only."""
        return None

    def heatmap(self, state: VisualState) -> Tensor:
        """(pairs, 2, rows, columns) in [0, 1]: the system's own maps, else how far a cell is from its counterpart."""
        heat = self.system.heat(state.extras)
        if heat is None:
            heat = torch.stack([state.extras["cell_distance"]] * 2, dim=1)
        heat = _resampled(heat, self.grid)
        return (heat / heat.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)).clamp(0, 1)


def _resampled(heat: Tensor, grid: tuple[int, int]) -> Tensor:
    """(pairs, 2, cells) on the model's grid; systems that pooled it have a smaller one of the same shape."""
    if heat.shape[-1] == grid[0] * grid[1]:
        result: Tensor = heat.unflatten(-1, grid)
        return result
    rows = round((heat.shape[-1] * grid[0] / grid[1]) ** 0.5)
    return F.interpolate(heat.unflatten(-1, (rows, -1)), size=grid, mode="nearest")


def repeated(seen: Seen, times: int) -> Seen:
    """Every pair `times` times in a row, for decoding with several sentences."""
    return seen if times == 1 else {name: value.repeat_interleave(times, dim=0) for name, value in seen.items()}
