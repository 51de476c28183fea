"""Fits how an everyday model's nouns are read: their temperature, and how specific names may be.

All from arrays of held-out pairs, as `benchmarks/everyday_figures.py` saves them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spotchange.everyday.language.nouns import ROOT, NounTree

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
_TEMPERATURES = np.exp(np.linspace(np.log(0.4), np.log(4.0), 40))
_LEVELS = np.round(np.arange(0.3, 0.991, 0.01), 2)


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How often a noun is said at a level of certainty, and how often it is true."""

    level: float
    said: float  # part of the things that get a noun
    right: float  # part of the nouns said that are true: the thing's own, or what it is a kind of
    exact: float  # part of the nouns said that are the thing's own


def softmax(scores: Floats, temperature: float = 1.0) -> npt.NDArray[np.float64]:
    """Probabilities along the last axis."""
    scaled = scores.astype(np.float64) / temperature
    scaled -= scaled.max(axis=-1, keepdims=True)
    odds = np.exp(scaled)
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def fit_temperature(scores: Floats, truth: Ints) -> float:
    """The temperature under which the truth is most likely; rows with a negative truth do not count."""
    known = truth >= 0
    scores, truth = scores[known], truth[known]
    losses = [
        -np.log(softmax(scores, temperature)[np.arange(len(truth)), truth] + 1e-9).mean()
        for temperature in _TEMPERATURES
    ]
    return round(float(_TEMPERATURES[int(np.argmin(losses))]), 3)


def naming_at(chances: Floats, nouns: Ints, tree: NounTree, level: float, *, closer: float | None = None) -> Naming:
    """What is said of things with these noun probabilities and true nouns at a level (see `NounTree.hedge`)."""
    said = [tree.hedge(each, level, closer=closer) for each in chances]
    named = [(word, tree.names[int(noun)]) for word, noun in zip(said, nouns, strict=True) if word != ROOT]
    if not named:
        return Naming(level=level, said=0.0, right=1.0, exact=0.0)
    right = float(np.mean([tree.is_a(noun, word) for word, noun in named]))
    exact = float(np.mean([noun == word for word, noun in named]))
    return Naming(level=level, said=len(named) / len(said), right=right, exact=exact)


def fit_level(chances: Floats, nouns: Ints, tree: NounTree, *, right: float = 0.9) -> Naming:
    """The lowest level from which on at least `right` of the nouns said are true; the highest if none is enough."""
    found = naming_at(chances, nouns, tree, float(_LEVELS[-1]))
    for level in _LEVELS[::-1]:
        naming = naming_at(chances, nouns, tree, float(level))
        if naming.right < right:
            break
        found = naming
    return found
