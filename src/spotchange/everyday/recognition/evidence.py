"""How likely each noun is, from all that the recognisers say of one place.

Two heads of one classifier and a detector are witnesses that err differently: their log probabilities are added with
fitted weights. What is known only as a family ("bottle") counts for every kind of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.everyday.language.nouns import NounTree, everyday_nouns

Floats = npt.NDArray[np.floating]
Chances = npt.NDArray[np.float64]  # (nouns + 1,); the last is that nothing is there that has a name


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Fitted on held-out things (`benchmarks/everyday_naming.py`); lies beside the networks as `naming.json`."""

    known: tuple[str, ...]  # nouns of the classifier's own head, in its order; "nothing" is one more
    head: float = 1.0  # weights of the witnesses
    imagenet: float = 0.5
    detector: float = 10.0
    head_floor: float = 1e-3  # what a noun has that a witness does not know or denies
    imagenet_floor: float = 1e-3
    temperature: float = 1.0
    level: float = 0.7  # least probability of a noun that is said
    tree: NounTree = field(default_factory=everyday_nouns, repr=False, compare=False)

    @classmethod
    def read(cls, folder: Path) -> Evidence:
        """From the recognisers' folder."""
        values: dict[str, Any] = json.loads((folder / "naming.json").read_text(encoding="utf-8"))
        named = {each.name for each in fields(cls)}
        return cls(
            **{name: value for name, value in values.items() if name in named} | {"known": tuple(values["known"])}
        )

    @cached_property
    def _places(self) -> npt.NDArray[np.int64]:
        ids = self.tree.ids
        return np.array([*(ids[noun] for noun in self.known), len(self.tree.names)])

    def chances(self, head: Floats, classes: Floats, detected: Floats) -> Chances:
        """Probabilities of nouns for windows.

        Args:
            head: (windows, known nouns + 1), scores.
            classes: (windows, 1000), ImageNet scores.
            detected: (windows, 91), what a detector saw at the same place, from 0 to 1.
        """
        nouns = len(self.tree.names)
        own = np.full((len(head), nouns + 1), self.head_floor)
        own[:, self._places] += softmax(head)
        table, spread = recognised_classes(), below(self.tree)
        seen = table.from_imagenet(softmax(classes))
        seen = np.concatenate([seen[:, :nouns] @ spread, seen[:, nouns:]], axis=1) + self.imagenet_floor
        seen[:, nouns] = self.imagenet_floor  # an ImageNet class that is not ours is no evidence for an empty place
        marks = np.zeros((len(head), nouns + 1))
        for row, kind in np.argwhere((detected > 0) & (table.coco >= 0)):
            kinds = np.flatnonzero(self.tree.membership_cached()[table.coco[kind]])
            marks[row, kinds] = np.maximum(marks[row, kinds], detected[row, kind])
        logs = self.head * np.log(own) + self.imagenet * np.log(seen) + np.log1p(self.detector * marks)
        return softmax(logs / self.temperature)


def softmax(scores: Floats) -> Chances:
    """Along the last axis."""
    powers = np.exp(np.asarray(scores, np.float64) - np.max(scores, axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Classes:
    """Which class is which noun: places in the tree, -1 for classes that are no everyday thing of ours."""

    imagenet: npt.NDArray[np.int64]  # (1000,)
    coco: npt.NDArray[np.int64]  # (91,), by COCO's own numbers

    def from_imagenet(self, probabilities: Floats) -> npt.NDArray[np.float64]:
        """(..., 1000) to (..., nouns + 1); the last is what belongs to no noun."""
        return _summed(probabilities, self.imagenet)


@cache
def recognised_classes() -> Classes:
    """The table that ships."""
    import yaml

    text = resources.files("spotchange.everyday.recognition").joinpath("classes.yaml").read_text(encoding="utf-8")
    table, ids = yaml.safe_load(text), everyday_nouns().ids
    places = {}
    for name, count in (("imagenet", 1000), ("coco", 91)):
        places[name] = np.full(count, -1, np.int64)
        for noun, numbers in table[name].items():
            places[name][_spelled_out(numbers)] = ids[noun]
    return Classes(**places)


def _spelled_out(numbers: list[Any]) -> list[int]:
    found = []
    for each in numbers:
        first, _, last = str(each).partition("-")
        found += list(range(int(first), int(last or first) + 1))
    return found


def _summed(probabilities: Floats, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    nouns = len(everyday_nouns().names)
    table = np.zeros((len(places), nouns + 1))
    table[np.arange(len(places)), np.where(places < 0, nouns, places)] = 1
    return np.asarray(probabilities, np.float64) @ table


@cache
def below(tree: NounTree) -> npt.NDArray[np.float64]:
    """(nouns, nouns): how what is known only as the row's noun is shared among it and the kinds of it."""
    shared = tree.membership_cached().astype(np.float64)
    return np.asarray(shared / shared.sum(axis=1, keepdims=True))
