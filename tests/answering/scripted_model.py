"""A model whose answers a test writes down, behind the interface that every model offers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spotchange.answering import Captioner
from spotchange.answering.calibration import Calibration, Familiarity
from spotchange.answering.interface import AnswererCard
from spotchange.answering.model import ModelAnswerer
from spotchange.answering.runtimes.torch import TorchRuntime
from spotchange.models.interface import DecodingOptions, Generated, VisualState


@dataclass
class ScriptedModel:
    """Says the same of every pair: `sentences` best first, change logits, one hot patch."""

    sentences: tuple[str, ...] = ("the cube moved", "nothing has changed")
    logits: tuple[float, ...] | None = (0.0, 0.0, 0.0, 0.0, 0.0, 4.0)
    without_denial: str | None = None  # said where "nothing" may not be
    hot: tuple[int, int, int] = (1, 2, 3)  # image, row, column
    features: float = 0.0
    seen: list[DecodingOptions] = field(default_factory=list)

    def encode(self, before: Tensor, after: Tensor) -> VisualState:
        pairs = len(before)
        features = torch.full((pairs, 8), self.features)
        return VisualState(tokens=torch.zeros(pairs, 2, 4), grid=(4, 6), features=features, extras={})

    def change_logits(self, state: VisualState) -> Tensor | None:
        return None if self.logits is None else torch.tensor(self.logits).expand(len(state), -1)

    def heatmap(self, state: VisualState) -> Tensor:
        heat = torch.full((len(state), 2, 4, 6), 0.1)
        image, row, column = self.hot
        heat[:, image, row, column] = 0.9
        return heat

    def generate(self, state: VisualState, options: DecodingOptions) -> Generated:
        self.seen.append(options)
        if self.without_denial is not None and ScriptedWords.NOTHING in dict(options.word_penalties):
            self.sentences = (self.without_denial, *self.sentences)
        count = min(options.candidates, len(self.sentences))
        ids = torch.arange(count)[None, :, None].expand(len(state), -1, 1)
        lengths = torch.ones(len(state), count, dtype=torch.long)
        chances = -torch.arange(1.0, count + 1)[None, :, None].expand(len(state), -1, 1)
        return Generated(ids=ids, log_probabilities=chances, lengths=lengths)


class ScriptedWords:
    """A tokenizer that knows three words."""

    NOTHING = 9

    def token_to_id(self, word: str) -> int | None:
        return {"left": 7, "right": 8, "nothing": self.NOTHING}.get(word)


@dataclass
class ScriptedLoaded:
    """What `load_model` gives."""

    model: ScriptedModel
    name: str = "scripted"
    change_types: tuple[str, ...] = ("none", "color", "texture", "add", "drop", "move")
    tokenizer: ScriptedWords = field(default_factory=ScriptedWords)

    def preprocess(self, images: list[Image.Image]) -> Tensor:
        return torch.zeros(len(images), 3, 8, 12)

    def decode(self, ids: list[int]) -> str:
        return self.model.sentences[ids[0]]


class ScriptedRuntime(TorchRuntime):
    """The real runtime around a scripted model, which has neither settings nor parameters."""

    card = AnswererCard(name="scripted", architecture="scripted", change_types=ScriptedLoaded.change_types)
    workers = 1


def scripted(model: ScriptedModel, **calibration: object) -> Captioner:
    """A captioner around a scripted model; `familiarity` statistics know features around 0."""
    known = np.random.default_rng(0).normal(0, 1, (400, 8)).astype(np.float32)
    answerer = ModelAnswerer(
        ScriptedRuntime(ScriptedLoaded(model)),
        calibration=Calibration.model_validate(calibration),
        familiarity=Familiarity.fit(known, kept=4),
    )
    return Captioner(answerer)
