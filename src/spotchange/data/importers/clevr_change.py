"""CLEVR-Change: every scene gives a pair with a change and a pair where only camera and light moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spotchange.data.importers.base import Importer, Problems, SourcePair, read_json, read_splits, sentences
from spotchange.pairs import PixelBox

# The name in the files -> ours, which is also the papers'.
CHANGE_TYPES = {"color": "color", "material": "texture", "add": "add", "drop": "drop", "move": "move"}


def read_pairs(source: Path, problems: Problems) -> Iterator[SourcePair]:
    """Change row and distractor row of every scene, next to each other; their ids are those of the papers' tools."""
    changes = read_json(source / "change_captions.json", problems, dict) or {}
    no_changes = read_json(source / "no_change_captions.json", problems, dict) or {}
    types = read_types(source / "type_mapping.json", problems)
    boxes = _read_boxes(source / "change_captions_with_bbox.json", problems)
    for split, numbers in read_splits(source / "splits.json", problems).items():
        for number in numbers:
            name = f"CLEVR_default_{number:06d}.png"
            said, unsaid = sentences(changes.get(name)), sentences(no_changes.get(name))
            if number not in types:
                problems.add(source / "type_mapping.json", f"has no type for scene {number}")
                continue
            if not said or not unsaid:
                problems.add(source, f"scene {number}: no captions for {name}")
                continue
            before = source / "images" / name
            before_boxes, after_boxes = boxes.get(number, (None, None))
            yield SourcePair(
                split=split,
                id=f"{number:06d}",
                before=before,
                after=source / "sc_images" / f"CLEVR_semantic_{number:06d}.png",
                captions=said,
                change_type=types[number],
                scene_id=number,
                before_boxes=before_boxes,
                after_boxes=after_boxes,
            )
            yield SourcePair(
                split=split,
                id=f"{number:06d}_n",
                before=before,
                after=source / "nsc_images" / f"CLEVR_nonsemantic_{number:06d}.png",
                captions=unsaid,
                change_type="none",
                scene_id=number,
                before_boxes=() if boxes else None,
                after_boxes=() if boxes else None,
            )


def read_types(path: Path, problems: Problems) -> dict[int, str]:
    """A file `{"color": ["000000.png", ...], ...}` as scene number -> change type."""
    content = read_json(path, problems, dict) or {}
    types: dict[int, str] = {}
    for name, files in content.items():
        if name not in CHANGE_TYPES or not isinstance(files, list):
            problems.add(path, f"is of another version: unknown change type '{name}'")
            continue
        for file_name in files:
            digits = str(file_name).partition(".")[0].rpartition("_")[2]
            if digits.isdigit():
                types[int(digits)] = CHANGE_TYPES[name]
            else:
                problems.add(path, f"is of another version: '{file_name}' names no scene")
    return types


def _read_boxes(path: Path, problems: Problems) -> dict[int, tuple[tuple[PixelBox, ...], tuple[PixelBox, ...]]]:
    """Boxes of the changed object, where the file is there: it is published apart, for the pointing game."""
    if not path.is_file():
        return {}
    content = read_json(path, problems, dict) or {}
    found = {}
    for number, entry in content.items():
        try:
            found[int(number)] = (_box(entry["bbox_before"]), _box(entry["bbox_after"]))
        except (KeyError, TypeError, ValueError):
            problems.add(path, f"is of another version: entry '{number}' holds no boxes")
    return found


def _box(value: Any) -> tuple[PixelBox, ...]:
    if not value:
        return ()
    x, y, width, height = (float(side) for side in value)
    return ((x, y, width, height),)


IMPORTER = Importer(
    name="clevr-change",
    title="CLEVR-Change",
    what="rendered scenes of simple solids; one object recoloured, retextured, added, dropped or moved, and for every "
    "scene a distractor pair in which only camera and light moved; 480x320",
    size="39,803 scenes, 79,606 pairs, 119,409 pictures",
    licence="its repository states none; ask the authors",
    where="Park, Darrell, Rohrbach: Robust Change Captioning, ICCV 2019; the data link of the paper's code repository, "
    "RobustChangeCaptioning",
    layout="images/CLEVR_default_NNNNNN.png, sc_images/CLEVR_semantic_NNNNNN.png, "
    "nsc_images/CLEVR_nonsemantic_NNNNNN.png, change_captions.json, no_change_captions.json, splits.json, "
    "type_mapping.json, and change_captions_with_bbox.json where you have it",
    counts={"train": 67_660, "val": 3_976, "test": 7_970},
    check="half of each split's pairs have change type none; about 6,766 / 398 / 797 pairs of every other type",
    read_pairs=read_pairs,
)
