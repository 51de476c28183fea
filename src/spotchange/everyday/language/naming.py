"""From heat to names: where to look again, what the tree of nouns lets one say, and the sentence with its slots filled.

Plain arrays only: whoever computes the scores, the naming is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spotchange.everyday.language.colours import COLOURS
from spotchange.everyday.language.nouns import ROOT, NounTree
from spotchange.everyday.language.wording import OTHER, THING

Floats = npt.NDArray[np.floating]
WINDOW = 128  # side of what a second look sees, in pixels
_WARM = 0.4  # part of the highest heat that still belongs to the thing
_ROOM = 1.12  # how much wider than the warm cells the window is
_NARROWEST = 0.09
# In which image the thing is to be seen: before, after.
SHOWN = {"add": (False, True), "drop": (True, False)}
_MASS = {
    "toy food",
    "toy furniture",
    "bread",
    "cheese",
    "rice",
    "soup",
    "salad",
    "spaghetti",
    "sushi",
    "soap",
    "garlic",
}
_MASS |= {"furniture", "clothing", "food", "tableware", "electronics", "packaging", "paper", "stationery", "sweets"}
_MASS |= {"cutlery", "sports gear", "corn", "fire", "popcorn", "nature", "roast chicken", "headwear", "cardboard"}
# What is said in place of families that no one would call by their name, and of nouns that are plural.
_SPOKEN = {
    "headphones": "pair of headphones",
    "scissors": "pair of scissors",
    "glasses": "pair of glasses",
    "sunglasses": "pair of sunglasses",
    "trousers": "pair of trousers",
    "pliers": "pair of pliers",
    "skis": "pair of skis",
    "grapes": "bunch of grapes",
    "cherries": "bunch of cherries",
    "pancakes": "stack of pancakes",
    "french fries": "portion of french fries",
    "toy dishes": "set of toy dishes",
    "drawers": "chest of drawers",
    "furniture": "piece of furniture",
    "clothing": "piece of clothing",
    "food": "food item",
    "tableware": "kitchen item",
    "electronics": "electronic device",
    "packaging": "piece of packaging",
    "paper": "paper item",
    "stationery": "piece of stationery",
    "nature": ROOT,
    "sports gear": "piece of sports gear",
    "headwear": "piece of headwear",
}


@dataclass(frozen=True, kw_only=True)
class Name:
    """How a thing may be called."""

    noun: str  # of the tree, or the root
    colour: str | None = None


def hot_window(heat: Floats) -> tuple[float, float, float, float]:
    """Middle, width and height (parts of the image) of a square window round the hottest place of (rows, columns)."""
    rows, columns = heat.shape
    start = np.unravel_index(int(heat.argmax()), heat.shape)
    warm = heat >= _WARM * heat[start]
    found = np.zeros_like(warm)
    waiting = [(int(start[0]), int(start[1]))]
    while waiting:
        row, column = waiting.pop()
        if 0 <= row < rows and 0 <= column < columns and warm[row, column] and not found[row, column]:
            found[row, column] = True
            waiting += [(row + down, column + across) for down in (-1, 0, 1) for across in (-1, 0, 1)]
    ys, xs = np.nonzero(found)
    top, bottom, left, right = ys.min() / rows, (ys.max() + 1) / rows, xs.min() / columns, (xs.max() + 1) / columns
    side = max(_ROOM * max(bottom - top, right - left), _NARROWEST)
    return float((left + right) / 2), float((top + bottom) / 2), float(side), float(side)


def name_of(nouns: Floats, colours: Floats, tree: NounTree, *, level: float, colour_level: float = 0.6) -> Name:
    """The name that probabilities of nouns and colours allow."""
    best = int(colours.argmax())
    says_colour = float(colours[best]) >= colour_level and COLOURS[best] != "multicolored"
    return Name(noun=tree.hedge(nouns, level), colour=COLOURS[best] if says_colour else None)


def fill(frame: str, thing: Name, other: Name | None = None, *, with_colour: bool = True) -> str:
    """The sentence of a frame: names in its slots, with the articles they need."""
    words = frame.split()
    spoken: list[str] = []
    for word in words:
        if word not in (THING, OTHER):
            spoken.append(word)
            continue
        name = thing if word == THING or other is None else other
        article = spoken.pop() if spoken and spoken[-1] in ("a", "the", "new") else ""
        if article == "new":
            article = spoken.pop()
            spoken.append(phrase(name, article, with_colour=with_colour, new=True))
        else:
            spoken.append(phrase(name, article, with_colour=with_colour))
    return " ".join(spoken)


def phrase(name: Name, article: str, *, with_colour: bool = True, new: bool = False) -> str:
    """ "a red mug", "the scissors", "something red", "an apple"."""
    noun = _SPOKEN.get(name.noun, name.noun)
    colour = name.colour if with_colour else None
    if noun == ROOT:
        return " ".join(["something", *(["new"] if new else []), *([colour] if colour else [])])
    words = [*(["new"] if new else []), *([colour] if colour else []), noun]
    if article == "a":
        bare = name.noun in _MASS and name.noun not in _SPOKEN
        return " ".join(words) if bare else f"{indefinite(words[0])} {' '.join(words)}"
    return " ".join([article, *words]) if article else " ".join(words)


def indefinite(word: str) -> str:
    """ "an" before a vowel's sound, else "a"."""
    return "an" if word[0].lower() in "aeiou" and not word.startswith(("uni", "use", "usb")) else "a"
