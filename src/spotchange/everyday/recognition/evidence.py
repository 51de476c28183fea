"""How likely each noun is, from all that is seen at one place.

A detector and the trained model's second look are witnesses that err differently: their log probabilities are added
with fitted weights. What is detected as a family ("bottle") counts for every kind of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.everyday.language.nouns import NounTree, everyday_nouns

Floats = npt.NDArray[np.floating]
Chances = npt.NDArray[np.float64]  # (nouns + 1,); the last is that nothing is there that has a name

COCO = 91  # numbers of the detector's kinds, some of them unused


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Fitted on held-out things (`benchmarks/everyday_naming.py`); lies beside the detector as `naming.json`."""

    detector: float = 10.0  # weights of the witnesses
    second: float = 0.5
    second_floor: float = 1e-3  # what a noun has that the second look denies
    temperature: float = 1.0
    level: float = 0.7  # least probability of a family ("container") that is said
    closer: float = 0.7  # and of a kind of it ("mug"), which is more often wrong
    tree: NounTree = field(default_factory=everyday_nouns, repr=False, compare=False)

    @classmethod
    def read(cls, folder: Path) -> Evidence:
        """From the detector's folder."""
        values: dict[str, Any] = json.loads((folder / "naming.json").read_text(encoding="utf-8"))
        named = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in named})

    def chances(self, second: Floats, detected: Floats) -> Chances:
        """Probabilities of nouns for places.

        Args:
            second: (places, nouns + 1), scores of the trained model's second look.
            detected: (places, 91), what a detector saw at the same place, from 0 to 1.
        """
        kinds = detected_kinds()
        marks = np.zeros(second.shape)
        for row, number in np.argwhere((detected > 0) & (kinds >= 0)):
            below = np.flatnonzero(self.tree.membership_cached()[kinds[number]])
            marks[row, below] = np.maximum(marks[row, below], detected[row, number])
        logs = self.second * np.log(softmax(second) + self.second_floor) + np.log1p(self.detector * marks)
        return softmax(logs / self.temperature)

    def noun(self, probabilities: Floats) -> str:
        """What may be said of a thing with these probabilities (nouns,)."""
        return self.tree.hedge(probabilities, self.level, closer=self.closer)


def softmax(scores: Floats) -> Chances:
    """Along the last axis."""
    powers = np.exp(np.asarray(scores, np.float64) - np.max(scores, axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def likeness(one: Chances, other: Chances) -> float:
    """How much two looks say the same (Bhattacharyya), from 0 to 1."""
    first, second = (each[:-1] / each[:-1].sum() for each in (one, other))
    return float(np.sqrt(first * second).sum())


@cache
def detected_kinds() -> npt.NDArray[np.int64]:
    """(91,): the place in the tree of each of COCO's kinds, by COCO's own numbers; -1 where there is none."""
    import yaml

    text = resources.files("spotchange.everyday.recognition").joinpath("classes.yaml").read_text(encoding="utf-8")
    ids, places = everyday_nouns().ids, np.full(COCO, -1, np.int64)
    for noun, numbers in yaml.safe_load(text).items():
        places[numbers] = ids[noun]
    return places
