"""Decides whether a caption is true of a pair of scenes, and which object it names.

It shares no code with the writer: sentences go through `grammar.py`, scenes come as plain dictionaries in
the shape of `scenes.jsonl`, and the change is found by comparing the objects before and after. *Fact accuracy* is the
share of captions whose verdict is `correct`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spotchange.errors import DataError
from spotchange.language.grammar import Claim, Description, UnreadableError, read_claim

ATTRIBUTES = ("shape", "size", "color", "material")
# CLEVR's own threshold: nearer than this to the line through the other object, a thing is on neither side of it.
SIDE_MARGIN = 0.2

Thing = Mapping[str, Any]


@dataclass(frozen=True)
class SentenceCheck:
    """What the checker thinks of one caption.

    Attributes:
        true: It says what happened, and of an object it may mean.
        parsed: It is a sentence of the language.
        names: Places, in the list of objects it is about, of all objects that fit the phrase; one if it is clear.
        change_type: What it claims ("none" for no change), None if unreadable.
        reason: Why it is not correct, else empty.
        attributes_claimed: Stated attributes of the named object, and "new" where a new value is given.
    """

    true: bool
    parsed: bool
    names: tuple[int, ...] = ()
    change_type: str | None = None
    reason: str = ""
    attributes_claimed: dict[str, str] = field(default_factory=dict)

    @property
    def correct(self) -> bool:
        """True and naming the changed object alone, or true that nothing changed."""
        return self.true and not self.reason


@dataclass(frozen=True)
class Change:
    """What really happened between two lists of objects."""

    change_type: str
    before: int | None = None  # place of the changed object in the list before
    after: int | None = None
    new: str | None = None


def check(caption: str, scene: Mapping[str, Any], *, distractor: bool = False) -> SentenceCheck:
    """Verify a caption against a scene whose objects and cameras are known.

    Relations hold seen from the first camera in the scene before; for an added object, from the second in the scene
    after.

    Args:
        caption: Any text.
        scene: A line of `scenes.jsonl`: "before" and "after" (lists of objects with shape, size, color, material and
            xy) and "cameras".
        distractor: Verify it as a caption of the pair in which only the camera moved.
    """
    change = Change("none") if distractor else find_change(scene)
    try:
        claim = read_claim(caption)
    except UnreadableError as error:
        return SentenceCheck(true=False, parsed=False, reason=str(error))
    if claim.subject is None:
        right = change.change_type == "none"
        return SentenceCheck(right, True, (), "none", "" if right else f"there is a change: {change.change_type}")
    version = "after" if claim.change_type == "add" else "before"
    if distractor:
        version = "before"
    things, directions = scene[version], _directions(scene["cameras"][version])
    names, clear = _named(claim.subject, things, directions)
    problem = _mismatch(claim, change.change_type, change.new)
    if not problem and getattr(change, version) not in names:
        problem = "it speaks of another object" if names else "no object fits the phrase"
    unclear = "" if clear and len(names) == 1 else "the phrase fits several objects"
    return SentenceCheck(not problem, True, names, claim.change_type, problem or unclear, _claimed(claim))


def check_facts(caption: str, change_type: str, facts: Mapping[str, Any]) -> SentenceCheck:
    """Verify a caption where only the facts of the change are known, not the scene.

    The type must be right, no stated attribute may contradict the changed object's, and a new value must be the true
    one. Whether the phrase fits other objects too, and whether its relation holds, cannot be seen from facts: both
    are taken on trust, and `names` is (0,), the changed object. The result is never harsher than `check`'s.

    Args:
        caption: Any text.
        change_type: The row's.
        facts: The row's: {"target": {"shape", "size", "color", "material"}, "new": value}; not needed for none.
    """
    try:
        claim = read_claim(caption)
    except UnreadableError as error:
        return SentenceCheck(true=False, parsed=False, reason=str(error))
    problem = _mismatch(claim, change_type, facts.get("new"))
    if problem or claim.subject is None:
        return SentenceCheck(not problem, True, (), claim.change_type, problem, _claimed(claim))
    target = _target(facts)
    wrong = [name for name, value in claim.subject.attributes.items() if target[name] != value]
    if wrong:
        problem = f"the {wrong[0]} of the changed object is {target[wrong[0]]}"
    return SentenceCheck(not problem, True, () if problem else (0,), claim.change_type, problem, _claimed(claim))


def has_all_attributes(caption: str, change_type: str, facts: Mapping[str, Any]) -> bool:
    """All-attributes accuracy: the type, all four attributes of the changed object and the new value, stated and right.

    Stricter than `check_facts` in that nothing may be left out.
    """
    verdict = check_facts(caption, change_type, facts)
    stated = verdict.attributes_claimed
    return verdict.true and (change_type == "none" or all(name in stated for name in ATTRIBUTES))


def find_change(scene: Mapping[str, Any]) -> Change:
    """Compare the objects before and after; exactly one may differ."""
    before, after = list(scene["before"]), list(scene["after"])
    left = [i for i, thing in enumerate(before) if not any(_same(thing, other) for other in after)]
    come = [i for i, thing in enumerate(after) if not any(_same(thing, other) for other in before)]
    if len(left) > 1 or len(come) > 1:
        raise DataError(f"scene {scene.get('id', '?')}: more than one object changed")
    if not left and not come:
        return Change("none")
    if not come:
        return Change("drop", before=left[0])
    if not left:
        return Change("add", after=come[0])
    old, new = before[left[0]], after[come[0]]
    differing = [name for name in ATTRIBUTES if old[name] != new[name]]
    if not differing:
        return Change("move", left[0], come[0])
    if differing not in (["color"], ["material"]) or not _same_place(old, new):
        raise DataError(f"scene {scene.get('id', '?')}: an object changed in more than one way")
    kind = "color" if differing == ["color"] else "texture"
    return Change(kind, left[0], come[0], new[differing[0]])


def _same_place(thing: Thing, other: Thing) -> bool:
    return math.dist(thing["xy"], other["xy"]) < 1e-4


def _same(thing: Thing, other: Thing) -> bool:
    return _same_place(thing, other) and all(thing[name] == other[name] for name in ATTRIBUTES)


def _target(facts: Mapping[str, Any]) -> Mapping[str, str]:
    target = facts.get("target")
    if not isinstance(target, Mapping) or any(name not in target for name in ATTRIBUTES):
        raise DataError("facts lack the changed object's shape, size, color and material")
    return target


def _claimed(claim: Claim) -> dict[str, str]:
    stated = dict(claim.subject.attributes) if claim.subject else {}
    return stated | ({"new": claim.new} if claim.new else {})


def _mismatch(claim: Claim, change_type: str, new: str | None) -> str:
    """Why the kind of change or the new value is wrong; empty if both are right."""
    if claim.change_type != change_type:
        return f"it says {claim.change_type}, the truth is {change_type}"
    if claim.new != new:
        return f"it says {claim.new}, the truth is {new}"
    return ""


def _directions(camera: Sequence[float]) -> dict[str, tuple[float, float]]:
    """Where left, right, behind and front lie on the ground for a camera that looks at the origin."""
    reach = math.hypot(camera[0], camera[1])
    ahead = (-camera[0] / reach, -camera[1] / reach)
    right = (ahead[1], -ahead[0])  # the view turned a quarter clockwise, seen from above
    return {"right": right, "left": (-right[0], -right[1]), "behind": ahead, "front": (-ahead[0], -ahead[1])}


def _named(
    phrase: Description, things: Sequence[Thing], directions: Mapping[str, tuple[float, float]]
) -> tuple[tuple[int, ...], bool]:
    """All objects that fit a phrase, and whether every object it leans on is clear."""
    fits = [
        i for i, thing in enumerate(things) if all(thing[name] == value for name, value in phrase.attributes.items())
    ]
    if phrase.relation is None or phrase.anchor is None:
        return tuple(fits), True
    anchors, clear = _named(phrase.anchor, things, directions)
    toward = directions[phrase.relation]
    related = [
        i for i in fits if any(j != i and _distance_along(toward, things[j], things[i]) > SIDE_MARGIN for j in anchors)
    ]
    return tuple(related), clear and len(anchors) == 1


def _distance_along(toward: tuple[float, float], start: Thing, end: Thing) -> float:
    result: float = sum(way * (b - a) for way, a, b in zip(toward, start["xy"], end["xy"], strict=True))
    return result
