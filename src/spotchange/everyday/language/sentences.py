"""True sentences about an everyday pair: kind of change, name, colour, place, neighbours."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from spotchange.everyday.kinds import Facts, single_changes
from spotchange.everyday.language.naming import Name, fill, phrase
from spotchange.everyday.language.nouns import ROOT, NounTree, everyday_nouns
from spotchange.everyday.language.wording import FRAMES, PLACES, stated

REFERENCES = 6
_FAMILIES_UNSAID = {"household item", "nature", "push vehicle", "case"}

_ABOUT: dict[str, tuple[str, ...]] = {
    "add": (
        "{a} was added {place}",
        "{a} has appeared {place}",
        "there is now {a} {place}",
        "{a} is new {place}",
        "someone put {a} {place}",
        "{a} is now to be seen {place}",
    ),
    "drop": (
        "{the} {place} is gone",
        "{the} {place} was taken away",
        "{the} is no longer {place}",
        "{the} {place} has disappeared",
        "someone removed {the} {place}",
        "{the} {place} is missing now",
    ),
    "move": (
        "{the} moved {way}",
        "{the} {place} was moved {way}",
        "someone moved {the} {way}",
        "{the} {place} moved {way}",
        "{the} was moved {way} and is now {place2}",
        "{the} has moved {way}",
    ),
    "replace": (
        "{the} {place} was replaced by {other}",
        "where {the} was, there is now {other}",
        "{other} took the place of {the} {place}",
        "{the} {place} was exchanged for {other}",
        "instead of {the} {place} there is now {other}",
        "someone replaced {the} {place} by {other}",
    ),
    "color": (
        "{the} {place} is now {colour}",
        "{the} {place} turned {colour}",
        "the color of {the} became {colour}",
        "{the} {place} has become {colour}",
        "the color of {the} {place} is now {colour}",
        "{the} became {colour}",
    ),
    "turn": (
        "{the} {place} was turned",
        "{the} {place} lies another way",
        "someone turned {the} {place}",
        "{the} {place} has been turned",
        "{the} was turned",
        "{the} {place} faces another way",
    ),
    "split": (
        "{the} {place} is in two pieces",
        "{the} {place} came apart in two pieces",
        "{the} {place} broke into two pieces",
        "someone pulled {the} {place} into two pieces",
        "{the} is now in two pieces",
        "{the} {place} was split into two pieces",
    ),
    "resize": (
        "{the} {place} is now {size}",
        "{the} {place} became {size}",
        "{the} {place} has become {size}",
        "{the} {place} looks {size} than before",
        "{the} got {size}",
        "{the} is {size} now",
    ),
}
_WHOLE_EXTRA = {
    "none": ("nothing is different", "no change can be seen", "both pictures show the same things"),
    "brighter": ("there is more light in the picture", "everything became brighter", "the picture got brighter"),
    "darker": ("there is less light in the picture", "everything became darker", "the picture got darker"),
    "blur": ("everything is blurred now", "the picture became blurred", "nothing in the picture is sharp anymore"),
    "crop": ("only part of the scene is left", "the picture was cut at its edges", "the view is narrower now"),
    "mirror": ("the picture was flipped sideways", "everything is mirrored", "what was left is now right"),
    "gray": ("all colors are gone", "the picture turned gray", "there are no colors anymore"),
    "tint": ("the colors of everything shifted", "another tint lies over the picture", "the light has another color"),
}


def write(facts: Facts, *, size: tuple[int, int], seed: int, count: int = REFERENCES) -> list[str]:
    """Different sentences about a pair whose change is visible; of several changes every one is told."""
    chance = random.Random(seed)
    singles = single_changes(facts)
    if singles[0]["target"] is None:
        texts = [*FRAMES[facts["kind"]], *_WHOLE_EXTRA[facts["kind"]]]
        chance.shuffle(texts)
        return texts[:count]
    found: dict[str, None] = {}
    for _ in range(12 * count):
        found.setdefault(_together([_sentence(each, size, chance) for each in singles], chance))
        if len(found) == count:
            break
    return list(found)


def difference(facts: Facts, *, size: tuple[int, int]) -> str:
    """A single change in the plainest words that tell all: the thing's own noun, its colour and place."""
    kind = facts["kind"]
    if facts["target"] is None:
        return FRAMES[kind][0]
    thing = facts["things"][facts["target"]]
    boxes, colours = thing["boxes"], thing["colours"]
    before, after = (None if box is None else PLACES[cell(box, size)] for box in boxes)
    names = [_named(thing["nouns"][side], colours[side]) for side in range(2)]
    frame = stated(
        kind,
        before=before,
        after=after,
        way=way(*boxes) if kind == "move" else None,
        colour=colours[1],
        size=_size(*boxes) if kind == "resize" else None,
    )
    return fill(frame, names[1 if kind == "add" else 0], names[1])


def _together(clauses: list[str], chance: random.Random) -> str:
    """Clauses about different things in one line, in any order."""
    if len(clauses) == 1:
        return clauses[0]
    *first, last = chance.sample(clauses, len(clauses))
    return "; ".join(first) + chance.choice(("; ", ", and ")) + last


def _sentence(facts: Facts, size: tuple[int, int], chance: random.Random) -> str:
    kind, thing = facts["kind"], facts["things"][facts["target"]]
    side = 1 if kind == "add" else 0
    box = thing["boxes"][side]
    tree = everyday_nouns()
    colour = thing["colours"][side] if chance.random() < 0.5 else None
    name = _name(thing["nouns"][side], colour, tree, chance)
    values = {
        "a": phrase(name, "a"),
        "the": phrase(name, "the"),
        "place": PLACES[cell(box, size)],
        "colour": thing["colours"][1],
        "size": "",
    }
    beside = _beside(facts, side, size)
    if beside is not None and chance.random() < 0.4:
        values["place"] = beside
    if kind == "replace":
        values["other"] = phrase(_name(thing["nouns"][1], None, tree, chance), "a")
    if kind == "move":
        values["way"] = way(box, thing["boxes"][1])
        values["place2"] = PLACES[cell(thing["boxes"][1], size)]
    if kind == "resize":
        values["size"] = _size(box, thing["boxes"][1])
    return chance.choice(_ABOUT[kind]).format(**values)


def _name(noun: str | None, colour: str | None, tree: NounTree, chance: random.Random) -> Name:
    """The noun itself, or now and then what it is a kind of."""
    if noun is None:
        return _named(None, colour)
    lineage = [tree.names[each] for each in tree.lineage(tree.ids[noun])]
    sayable = [each for each in lineage if each not in _FAMILIES_UNSAID] or [noun]
    place = 0 if chance.random() < 0.75 else chance.randrange(len(sayable))
    return _named(sayable[place], colour)


def _named(noun: str | None, colour: str | None) -> Name:
    return Name(noun=noun or ROOT, colour=None if colour == "multicolored" else colour)


def _beside(facts: Facts, side: int, size: tuple[int, int]) -> str | None:
    """The nearest thing with a name that stays, and how the target stands to it."""
    target = facts["things"][facts["target"]]["boxes"][side]
    changed = {each["target"] for each in single_changes(facts)}
    best: tuple[float, str] | None = None
    for place, thing in enumerate(facts["things"]):
        if place in changed or None in (thing["boxes"][0], thing["boxes"][1], thing["nouns"][side]):
            continue
        for test, words in RELATIONS.items():
            if words(target, thing["boxes"][side], size):
                far = distance(target, thing["boxes"][side])
                if best is None or far < best[0]:
                    best = far, f"{test} {phrase(Name(noun=thing['nouns'][side]), 'the')}"
                break
    return None if best is None else best[1]


Box = list[int]


def cell(box: Box, size: tuple[int, int]) -> int:
    """Which of the nine places of an image a box lies in."""
    x, y = (box[0] + box[2] / 2) / size[0], (box[1] + box[3] / 2) / size[1]
    return 3 * ((y > 0.36) + (y > 0.64)) + (x > 0.36) + (x > 0.64)


def way(before: Box, after: Box) -> str:
    """The main direction from one box to another."""
    across = after[0] + after[2] / 2 - before[0] - before[2] / 2
    down = after[1] + after[3] / 2 - before[1] - before[3] / 2
    if abs(across) >= abs(down):
        return "to the right" if across > 0 else "to the left"
    return "down" if down > 0 else "up"


def _size(before: Box, after: Box) -> str:
    return "larger" if area(after) > area(before) else "smaller"


def area(box: Box) -> int:
    return box[2] * box[3]


def distance(one: Box, other: Box) -> float:
    """Between two boxes, along the wider gap; 0 where they touch."""
    across = max(one[0] - other[0] - other[2], other[0] - one[0] - one[2], 0)
    down = max(one[1] - other[1] - other[3], other[1] - one[1] - one[3], 0)
    return float(max(across, down))


def _in_front(one: Box, other: Box, size: tuple[int, int]) -> bool:
    """Lower in the image and overlapping sideways: nearer to the camera."""
    overlap = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    lower = one[1] + one[3] - other[1] - other[3]
    return overlap > 0.4 * min(one[2], other[2]) and 0.03 * size[1] < lower < 0.25 * size[1]


def _near(one: Box, other: Box, size: tuple[int, int]) -> bool:
    return distance(one, other) < 0.12 * max(size)


RELATIONS: dict[str, Callable[[Any, Any, tuple[int, int]], bool]] = {
    "in front of": _in_front,
    "behind": lambda one, other, size: _in_front(other, one, size),
    "next to": _near,
}
