"""The tree of nouns: which noun is a kind of which, and how specific the evidence lets a sentence be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = "object"


@dataclass(frozen=True, kw_only=True)
class NounTree:
    """Nouns in the order of the file; every noun stands after the one it is a kind of. The root is not among them."""

    names: tuple[str, ...]
    parents: tuple[int, ...]  # place of the noun it is a kind of; -1 below the root

    @property
    def ids(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def lineage(self, noun: int) -> list[int]:
        """The noun, what it is a kind of, and so on, without the root."""
        found = []
        while noun >= 0:
            found.append(noun)
            noun = self.parents[noun]
        return found

    def is_a(self, noun: str, kind: str) -> bool:
        """Whether the one is a kind of the other; every noun is a kind of itself, and all are objects."""
        return kind == ROOT or kind in (self.names[each] for each in self.lineage(self.ids[noun]))

    def membership(self) -> npt.NDArray[np.float32]:
        """(nouns, nouns): 1 where the column's noun is a kind of the row's."""
        below = np.zeros((len(self.names), len(self.names)), np.float32)
        for noun in range(len(self.names)):
            below[self.lineage(noun), noun] = 1
        return below

    def depth(self, noun: int) -> int:
        return len(self.lineage(noun))

    def hedge(self, probabilities: npt.NDArray[np.floating], level: float, *, closer: float | None = None) -> str:
        """The most specific noun whose probability, kinds of it included, reaches `level`; else the root.

        Args:
            probabilities: (nouns,), or one more for things without a name, of what was seen being called just so.
            level: The least probability of a noun that is said.
            closer: The same of nouns that are a kind of another; `level` without it.
        """
        of_kind = self.membership_cached() @ probabilities[: len(self.names)].astype(np.float32)
        best, deepest = ROOT, (0, 0.0)
        least = np.where(np.asarray(self.parents) < 0, level, level if closer is None else closer)
        for noun in np.flatnonzero(of_kind >= least):
            rank = (self.depth(int(noun)), float(of_kind[noun]))
            if rank > deepest:
                best, deepest = self.names[noun], rank
        return best

    def membership_cached(self) -> npt.NDArray[np.float32]:
        return _membership(self)


@cache
def _membership(tree: NounTree) -> npt.NDArray[np.float32]:
    return tree.membership()


@cache
def everyday_nouns() -> NounTree:
    """The tree that ships."""
    import yaml

    text = resources.files("spotchange.everyday.language").joinpath("nouns.yaml").read_text(encoding="utf-8")
    rows = list(_walk(yaml.safe_load(text), -1, []))
    return NounTree(names=tuple(name for name, _ in rows), parents=tuple(parent for _, parent in rows))


def _walk(kinds: Any, parent: int, done: list[str]) -> Iterator[tuple[str, int]]:
    for name in kinds:
        done.append(name)
        yield name, parent
        below = kinds[name] if isinstance(kinds, dict) else []
        yield from _walk(below, len(done) - 1, done)
