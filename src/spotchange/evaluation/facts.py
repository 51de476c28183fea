"""Is the sentence true? Fact accuracy and all-attributes accuracy on data that knows its facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spotchange.data import Row
from spotchange.errors import DataError
from spotchange.files import load_json
from spotchange.images import image_size
from spotchange.language import check, check_facts, has_all_attributes
from spotchange.pairs import CHANGE_TYPES

SCENES_FILE = "scenes.jsonl"
FACTS, ALL_ATTRIBUTES = "fact accuracy", "all attributes"
ON_TRUST = "fact accuracy was judged without scenes: which object a relation names was taken on trust"

Scenes = Mapping[str, Mapping[str, Any]]


def read_scenes(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The scenes that lie beside the rows, by name; empty where there are none."""
    scenes: dict[str, dict[str, Any]] = {}
    for folder in dict.fromkeys(row.folder for row in rows):
        path = Path(folder) / SCENES_FILE
        if path.is_file():
            for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
                if line.strip():
                    scenes |= _scene(line, f"{path}:{number}")
    return scenes


def _scene(line: str, place: str) -> dict[str, dict[str, Any]]:
    try:
        scene = load_json(line)
        return {str(scene["id"]): scene}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{place} is not a scene") from error


def scene_of(row: Row, scenes: Scenes) -> Mapping[str, Any] | None:
    """The scene of a generated pair, whose id is the scene's with one letter added."""
    return scenes.get(row.id[:-1])


def is_true(row: Row, caption: str, scenes: Scenes) -> bool | None:
    """Whether a caption is true of a generated pair; None where nobody knows, or the checker cannot read it.

    Milder than fact accuracy: a phrase that fits several objects is true if one of them is the changed one.
    """
    if row.facts is None:
        return None
    if "kind" in row.facts:
        return _is_true_of_everyday(row, caption)
    if row.change_type not in CHANGE_TYPES:
        return None
    scene = scene_of(row, scenes)
    if scene is not None:
        verdict = check(caption, scene, distractor=row.change_type == "none")
    else:
        verdict = check_facts(caption, row.change_type, row.facts)
    return verdict.true if verdict.parsed else None


def _is_true_of_everyday(row: Row, caption: str) -> bool:
    from spotchange.everyday.language.checker import check as check_everyday  # here: scenes need no tree of nouns

    assert row.facts is not None
    return check_everyday(caption, row.facts, size=image_size(row.before_path)).true


def fact_values(row: Row, caption: str, scenes: Scenes) -> dict[str, float]:
    """1 or 0 for both accuracies; empty where the row does not know its facts.

    Of everyday pairs only the first is told. With the scene the checker sees whom a phrase names; from facts alone it
    can only see contradictions.
    """
    if row.facts is not None and "kind" in row.facts:
        return {FACTS: float(_is_true_of_everyday(row, caption))}
    if row.change_type not in CHANGE_TYPES or row.facts is None:
        return {}
    scene = scene_of(row, scenes)
    if scene is not None:
        verdict = check(caption, scene, distractor=row.change_type == "none")
    else:
        verdict = check_facts(caption, row.change_type, row.facts)
    stated = has_all_attributes(caption, row.change_type, row.facts)
    return {FACTS: float(verdict.correct), ALL_ATTRIBUTES: float(stated)}
