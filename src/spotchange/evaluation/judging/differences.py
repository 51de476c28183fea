"""The single true differences of a pair, as texts: from the data set, from a world's own facts, or from references."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from spotchange.data import Row
from spotchange.everyday.kinds import single_changes
from spotchange.images import image_size
from spotchange.language import says_no_change
from spotchange.pairs import CHANGE_TYPES

_WHOLE = {
    "brighter": "the whole picture became brighter",
    "darker": "the whole picture became darker",
    "blur": "the whole picture became blurred",
    "crop": "the picture was cropped: it shows a smaller part of the scene",
    "mirror": "the picture was mirrored: left and right are exchanged",
    "gray": "the picture lost its colors",
    "tint": "the colors of the whole picture shifted",
}
_SCENE = {
    "color": "{} changed its color to {}",
    "texture": "{} changed its material to {}",
    "add": "{} was added",
    "drop": "{} was removed",
    "move": "{} was moved to another place",
}


@dataclass(frozen=True, kw_only=True)
class DifferenceList:
    """All that changed; empty where nothing did."""

    texts: tuple[str, ...]
    source: Literal["data set", "facts", "references"]


def differences_of(row: Row) -> DifferenceList | None:
    """A row's differences; None where nothing tells them."""
    if row.differences is not None:
        return DifferenceList(texts=row.differences, source="data set")
    facts = row.facts
    if facts is not None and "kind" in facts:
        texts = [text for each in single_changes(dict(facts)) for text in _of_everyday(row, each)]
        return DifferenceList(texts=tuple(texts), source="facts")
    if facts is not None and row.change_type in CHANGE_TYPES:
        return DifferenceList(texts=_of_scene(row.change_type, facts), source="facts")
    if row.change_type == "none" or (row.captions and all(map(says_no_change, row.captions))):
        return DifferenceList(texts=(), source="references")
    # References are other wordings of what changed; a data set whose sentences are single differences lists them so.
    return (
        DifferenceList(texts=(" / ".join(dict.fromkeys(row.captions)),), source="references") if row.captions else None
    )


def _of_scene(kind: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    if kind == "none":
        return ()
    target = facts["target"]
    thing = f"the {target['size']} {target['color']} {target['material']} {target['shape']}"
    return (_SCENE[kind].format(thing, facts.get("new")),)


def _of_everyday(row: Row, facts: Mapping[str, Any]) -> tuple[str, ...]:
    kind = facts["kind"]
    if kind == "none":
        return ()
    if facts["target"] is None:
        return (_WHOLE[kind],)
    thing = facts["things"][facts["target"]]
    size = image_size(row.before_path)
    was, now = (_named(thing, side) for side in range(2))
    there, here = (_place(box, size) for box in thing["boxes"])
    larger = kind == "resize" and _area(thing["boxes"][1]) > _area(thing["boxes"][0])
    return (
        {
            "add": f"{now} was added {here}",
            "drop": f"{was} {there} was removed",
            "move": f"{was} moved from a place {there} to a place {here}",
            "replace": f"{was} {there} was replaced by {now}",
            "color": f"{was} {there} changed its color to {thing['colours'][1]}",
            "turn": f"{was} {there} was turned and faces another way",
            "split": f"{was} {there} broke into two pieces",
            "resize": f"{was} {there} became {'larger' if larger else 'smaller'}",
        }[kind],
    )


def _named(thing: Mapping[str, Any], side: int) -> str:
    noun = thing["nouns"][side] or "thing"
    return f"the {thing['colours'][side]} {noun}"


def _place(box: list[int] | None, size: tuple[int, int]) -> str:
    """As the world's sentences say it: thirds of the image."""
    if box is None:
        return ""
    x, y = (box[0] + box[2] / 2) / size[0], (box[1] + box[3] / 2) / size[1]
    across = "left" if x <= 0.36 else "right" if x > 0.64 else ""
    down = "top" if y <= 0.36 else "bottom" if y > 0.64 else ""
    return f"at the {' '.join(each for each in (down, across) if each) or 'middle'}"


def _area(box: list[int] | None) -> int:
    return box[2] * box[3] if box else 0
