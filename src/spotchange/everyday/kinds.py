"""The kinds of change in everyday images."""

from __future__ import annotations

from typing import Any

OBJECT_KINDS = ("add", "drop", "move", "replace", "color", "turn", "split", "resize")
WHOLE_KINDS = ("brighter", "darker", "blur", "crop", "mirror", "gray", "tint")
KINDS = ("none", *OBJECT_KINDS, *WHOLE_KINDS)
KIND_IDS = {name: number for number, name in enumerate(KINDS)}
SEVERAL = "change"  # of a pair where several things change, each in its own way

Facts = dict[str, Any]

# How often each is drawn, relative to the others.
SHARES = {
    "none": 30.0,
    "add": 11.0,
    "drop": 11.0,
    "move": 13.0,
    "replace": 9.0,
    "color": 6.0,
    "turn": 4.0,
    "split": 2.5,
    "resize": 3.0,
    "brighter": 1.2,
    "darker": 1.2,
    "blur": 1.2,
    "crop": 1.2,
    "mirror": 1.2,
    "gray": 1.2,
    "tint": 1.2,
}


def single_changes(facts: Facts) -> list[Facts]:
    """The facts of each change by itself; one where the whole picture changed, or nothing."""
    return [{**facts, **change} for change in facts.get("changes", [{}])]
