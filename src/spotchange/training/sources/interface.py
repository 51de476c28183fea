"""What every data source offers: endless batches, held-out pairs, captions and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from spotchange.data.caption_ids import CaptionCoder
from spotchange.errors import ConfigError
from spotchange.language import TOKENS
from spotchange.language.phrases import MAX_WORDS
from spotchange.pairs import PairBatch
from spotchange.training.sources.generated.retokenise import WordTable

if TYPE_CHECKING:
    from spotchange.training.start import Start

Negatives = Callable[[PairBatch], tuple[Tensor, Tensor]]
"""From a batch to false sentences for its captions: ids and mask (N, negatives, words)."""


@dataclass(frozen=True, kw_only=True)
class NegativePlan:
    """How many hard negatives of each kind a caption gets."""

    counts: tuple[int, int, int]
    """Retrieved, with words replaced, with subjects confused."""
    denials: bool = False
    """Let one of the retrieved deny the change, see `data/negatives/retrieval.py`."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a source must know of the run that reads it."""

    start: Start
    device: torch.device
    seed: int
    max_words: int
    """Longest caption in tokens."""
    rank: int = 0
    processes: int = 1

    @property
    def grid(self) -> tuple[int, int]:
        return self.start.settings.vision.grid

    @property
    def image_size(self) -> tuple[int, int]:
        return self.start.settings.vision.image_size

    @property
    def device_name(self) -> str:
        """The device as scenes call it."""
        return "cpu" if self.device.type == "cpu" else str(self.device)  # a group's CPUs are numbered, scenes' are not

    def coder(self) -> CaptionCoder:
        """Captions to the model's ids and back."""
        return CaptionCoder(self.start.tokenizer, max_words=self.max_words)

    @cached_property
    def scene_words(self) -> WordTable | None:
        """Scene words into the model's; None where they are the same and all fit."""
        vocabulary = self.start.settings.vocabulary
        same = vocabulary.size == len(TOKENS) and self.start.tokenizer.id_to_token(len(TOKENS) - 1) == TOKENS[-1]
        if same and self.max_words >= MAX_WORDS:
            return None
        return WordTable(self.start.tokenizer, vocabulary, context=self.max_words)

    def known_types(self, batch: PairBatch) -> PairBatch:
        """Change types that the model has no name for count as unknown, unless it only tells change from none."""
        kinds = len(self.start.settings.heads.change_types)
        if kinds == 2:
            return replace(batch, change_type=batch.change_type.clamp(max=1))
        known = batch.change_type < kinds
        return replace(batch, change_type=torch.where(known, batch.change_type, -1))


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Pairs that training never sees."""

    batches: list[Any]
    """`PairBatch`es, or `ChatBatch`es for a vision-language model."""
    references: list[list[str]]
    """Sentences about each pair, in the order of the batches."""
    check: Callable[[list[str]], list[bool]] | None = None
    """For generated scenes: which sentences are true and name only what changed."""

    def __len__(self) -> int:
        return len(self.references)


class Batches(Protocol):
    """Endless batches of one size, with a state to resume from."""

    paired: bool
    """Whether distractor rows follow their change rows."""
    shares_before: bool
    """Whether rows 2k and 2k + 1 show the same image before, so that it need be encoded only once."""

    def next_batch(self) -> Any:
        """A `PairBatch`, or the `TaskBatch` that IDC-PCL's pre-training reads."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Source(Protocol):
    """Where pairs come from. Nothing is opened before it is asked for."""

    def captions(self) -> Iterable[str]:
        """Every caption of the training data; none where they are generated."""

    def batches(self, run: RunContext, pairs: int) -> Batches:
        """Endless training batches of `pairs` rows for this process."""

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        """At most `pairs` pairs of a split that training never sees, `at_once` in a batch; None where there is none."""

    def negatives(self, run: RunContext, plan: NegativePlan, *, mirrored: bool = False) -> Negatives:
        """Hard negatives. `mirrored`: captions change on their way to the model, so that only their ids tell them."""


class NoNegatives:
    """For sources whose captions nothing can be put against."""

    def negatives(self, run: RunContext, plan: NegativePlan, *, mirrored: bool = False) -> Negatives:
        """Refused."""
        raise ConfigError("these data have no hard negatives", hint="set stage.objective.tasks.fda to 0")
