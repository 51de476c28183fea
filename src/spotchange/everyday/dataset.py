"""Writes a data set of everyday pairs, so that it can be interrupted anywhere and goes on where it stopped."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from spotchange.errors import DataError, InputError
from spotchange.everyday.facts import facts_of, visible
from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.kinds import SHARES, Facts, single_changes
from spotchange.everyday.language.sentences import REFERENCES, difference, write
from spotchange.everyday.library import Library
from spotchange.everyday.sampling import draw_scenes
from spotchange.files import load_json, read_input, write_bytes
from spotchange.locks import one_writer
from spotchange.pairs import Row
from spotchange.storage import Outgoing, outgoing_folder

ROWS, PLAN = "metadata.jsonl", "generator.json"
_AT_ONCE = {"cpu": 4, "cuda": 256}
SPLIT_SEEDS = {"train": 0, "val": 1, "test": 2}


@dataclass(frozen=True, kw_only=True)
class EverydayPlan:
    """What a split is made of."""

    split: str
    seed: int
    side: int
    library: str
    references: int = REFERENCES
    changes: int = 1
    """How many things of a scene change, at most."""

    def to_dict(self) -> dict[str, Any]:
        given = {"world": "everyday", **vars(self)}
        if self.changes == 1:  # as data sets say that are older than this setting
            del given["changes"]
        return given


@dataclass(frozen=True, kw_only=True)
class EverydayWritten:
    """What a split holds now."""

    split: str
    pairs: int
    new_pairs: int
    change_types: dict[str, int]


def generate_everyday(
    plan: EverydayPlan,
    library: Library,
    *,
    out: Path,
    pairs: int,
    shares: Mapping[str, float] = SHARES,
    on_pairs: Callable[[int], None] = lambda pairs: None,
) -> EverydayWritten:
    """Write `pairs` pairs of a split below `out`; those already there are kept.

    Scenes are numbered from 0; one whose change is hidden behind another thing is left out, and its number with it.
    """
    with one_writer(out / plan.split), outgoing_folder(out / plan.split, (PLAN, ROWS)) as outgoing:
        return _generate(plan, library, outgoing, pairs=pairs, shares=shares, on_pairs=on_pairs)


def _generate(
    plan: EverydayPlan,
    library: Library,
    outgoing: Outgoing,
    *,
    pairs: int,
    shares: Mapping[str, float],
    on_pairs: Callable[[int], None],
) -> EverydayWritten:
    folder = outgoing.here
    kinds = _begin(outgoing, plan)
    on_pairs(min(len(kinds), pairs))
    new, number = 0, _next_number(folder, kinds)
    while len(kinds) < pairs:
        step = _AT_ONCE[library.device.type]
        numbers = torch.arange(number, number + step)
        number += step
        seed = 3 * plan.seed + SPLIT_SEEDS[plan.split]
        scenes = draw_scenes(library, numbers, seed=seed, shares=shares, changes=plan.changes)
        images = compose(library, scenes, side=plan.side)
        facts = facts_of(library, scenes, images)
        shown = [place for place in range(len(facts)) if visible(facts[place])][: pairs - len(kinds)]
        pixels = images.pixels.permute(0, 1, 3, 4, 2).cpu().numpy()
        lines = [_write_pair(outgoing.there, int(numbers[place]), pixels[place], facts[place], plan) for place in shown]
        _append(folder / ROWS, lines)
        kinds |= {line["id"]: line["change_type"] for line in lines}
        new += len(lines)
        on_pairs(len(lines))
        outgoing.publish_now_and_then()
    counted = dict(Counter(kinds.values()).most_common())
    return EverydayWritten(split=plan.split, pairs=len(kinds), new_pairs=new, change_types=counted)


def _write_pair(folder: Path, number: int, pixels: np.ndarray, facts: Facts, plan: EverydayPlan) -> dict[str, Any]:
    names = [f"images/{number:06d}_{when}.png" for when in ("before", "after")]
    for name, image in zip(names, pixels, strict=True):
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        write_bytes(folder / name, buffer.getvalue())
    size = (plan.side, plan.side)
    singles = [each for each in single_changes(facts) if each["kind"] != "none"]
    boxes = [each["things"][each["target"]]["boxes"] for each in singles if each["target"] is not None]
    row = Row(
        id=f"everyday-{number:06d}",
        before_file_name=names[0],
        after_file_name=names[1],
        captions=tuple(write(facts, size=size, seed=number, count=plan.references)),
        differences=None if plan.changes == 1 else tuple(difference(each, size=size) for each in singles),
        change_type=facts["kind"],
        facts=facts,
        before_boxes=tuple(tuple(map(float, box)) for box, _ in boxes if box),  # type: ignore[misc]
        after_boxes=tuple(tuple(map(float, box)) for _, box in boxes if box),  # type: ignore[misc]
        scene_id=number,
    )
    return row.to_dict()


def _begin(outgoing: Outgoing, plan: EverydayPlan) -> dict[str, str]:
    """The rows that are there, by id; a line that was cut off is cut away."""
    folder = outgoing.here
    there = folder / PLAN
    if there.exists():
        if _read_plan(there) != plan.to_dict():
            raise InputError(
                f"{outgoing.there} was generated with other settings", hint="repeat them, or choose another --out"
            )
    elif (folder / ROWS).exists():
        raise InputError(
            f"{outgoing.there} holds a data set made by something else", hint="choose another --out or --split"
        )
    else:
        write_bytes(there, (json.dumps(plan.to_dict(), indent=2) + "\n").encode())
    rows = folder / ROWS
    lines = rows.read_bytes().splitlines(keepends=True) if rows.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    if len(whole) < len(lines):
        os.truncate(rows, sum(map(len, whole)))
    try:
        written = [load_json(line) for line in whole]
        names = [row[side] for row in written for side in ("before_file_name", "after_file_name")]
        kinds = {row["id"]: row["change_type"] for row in written}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{rows} holds lines that are none of this data set: {error}") from error
    for name in names:
        if not (folder / name).is_file() or not (folder / name).stat().st_size:
            raise DataError(f"{folder / name} is missing or empty", hint="remove the split and generate it again")
    return kinds


def _read_plan(path: Path) -> Any:
    try:
        return load_json(read_input(path))
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}", hint="choose another --out") from error


def _next_number(folder: Path, kinds: dict[str, str]) -> int:
    return 1 + max((int(name.rpartition("-")[2]) for name in kinds), default=-1)


def _append(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("ab") as file:
        file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())
