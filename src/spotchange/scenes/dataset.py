"""Writes a data set of generated scenes, so that it can be interrupted anywhere and goes on where it stopped.

Images are written first, the scene's lines after them, both rows of a scene in one go: whatever happens, the
metadata file names whole pairs whose images exist.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from spotchange.config.scenes import DatasetPlan
from spotchange.errors import InputError
from spotchange.files import load_json, write_bytes
from spotchange.locks import one_writer
from spotchange.scenes.export import VIEW_NAMES, image_file, mask_file, scene_name
from spotchange.scenes.making import SCENES_AT_ONCE, MadeScene, Pool, SceneWork
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.storage import Outgoing, StorePath, check_writable, outgoing_folder

ROWS, SCENES, PLAN = "metadata.jsonl", "scenes.jsonl", "generator.yaml"


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a split holds now."""

    split: str
    pairs: int
    new_pairs: int
    change_types: dict[str, int]


def _in_process(work: SceneWork, numbers: Sequence[int]) -> Iterator[MadeScene]:
    return work.start()(numbers)


def generate_split(
    plan: DatasetPlan,
    *,
    out: Path,
    scenes: int,
    start: int = 0,
    device: str = "cpu",
    on_pairs: Callable[[int], None] = lambda pairs: None,
    run: Callable[[SceneWork, Sequence[int]], Iterable[MadeScene]] = _in_process,
) -> Written:
    """Write scenes `start` to `start + scenes - 1` of a split below `out`; those already there are kept.

    Args:
        plan: What to write.
        out: The data set's folder; the split is a folder in it.
        scenes: Each gives two pairs.
        start: Number of the first scene.
        device: "cpu" or a CUDA device.
        on_pairs: Told how many pairs were finished, as they are.
        run: Who draws the scenes, in the order of their numbers; by default this process.
    """
    check_writable(out / plan.split, "--out")
    World(plan.scenes, seed=world_seed(plan.seed, plan.split), device=device).check_room()
    with one_writer(out / plan.split), outgoing_folder(out / plan.split, (PLAN, SCENES, ROWS)) as outgoing:
        folder = SplitFolder(outgoing, plan)
        numbers = range(start, start + scenes)
        wanted = [number for number in numbers if scene_name(number) not in folder.done]
        damaged = [number for number in numbers if scene_name(number) in folder.done and folder.lacks_images(number)]
        on_pairs(2 * (scenes - len(wanted) - len(damaged)))
        scenes_made = iter(run(SceneWork(plan=plan, device=device), [*damaged, *wanted]))
        with Pool(min(8, os.cpu_count() or 1)) as pool:
            while made := list(islice(scenes_made, SCENES_AT_ONCE[device.partition(":")[0]])):
                folder.add(made, pool)
                on_pairs(2 * len(made))
        return folder.summary(new_pairs=2 * len(wanted))


class SplitFolder:
    """One split on disk or in a store: its plan, its rows, its scenes."""

    def __init__(self, outgoing: Outgoing, plan: DatasetPlan) -> None:
        self.outgoing, self.plan = outgoing, plan
        self.path = path = outgoing.here
        self.done: dict[str, str] = {}  # scene name -> change type
        there = outgoing.there
        self._published = there.sizes() if isinstance(there, StorePath) else None
        if (path / PLAN).exists():
            _check_same_plan(path / PLAN, plan, there)
            self._repair()
        elif (path / ROWS).exists():
            raise InputError(f"{there} holds a data set made by something else", hint="choose another --out or --split")
        else:
            plan.save(path / PLAN)

    def add(self, made: Sequence[MadeScene], pool: ThreadPoolExecutor) -> None:
        """Write images and then lines of scenes; those that are there already get their images again."""
        list(pool.map(self._write_images, made))
        new = [each for each in made if scene_name(each.number) not in self.done]
        self.done |= {scene_name(each.number): str(each.rows[0]["change_type"]) for each in new}
        _append(
            (self.path / SCENES, [each.scene for each in new]), (self.path / ROWS, [r for e in new for r in e.rows])
        )
        self.outgoing.publish_now_and_then()

    def lacks_images(self, number: int) -> bool:
        """Whether an image of a scene is missing or empty, as after a full disk or a copy that was cut short."""
        files = [image_file(number, view) for view in range(len(VIEW_NAMES))]
        files += [mask_file(number)] if self.plan.masks else []
        if self._published is not None:
            return not all(self._published.get(file) for file in files)
        try:
            return any((self.path / file).stat().st_size == 0 for file in files)
        except OSError:
            return True

    def summary(self, *, new_pairs: int) -> Written:
        """What is there now."""
        kinds = sorted(self.done.values())
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} | {"none": len(kinds)}
        return Written(split=self.plan.split, pairs=2 * len(kinds), new_pairs=new_pairs, change_types=counts)

    def _write_images(self, made: MadeScene) -> None:
        for view, content in enumerate(made.images):
            write_bytes(self.outgoing.there / image_file(made.number, view), content)
        if made.mask is not None:
            write_bytes(self.outgoing.there / mask_file(made.number), made.mask)

    def _repair(self) -> None:
        """Cut both files after the last whole scene, and remember the scenes that stay.

        Nothing is cut from files that hold anything else than what this program writes.
        """
        lines = _whole_lines(self.path / ROWS)
        lines = lines[: len(lines) // 2 * 2]
        for number, (change, same) in enumerate(zip(lines[::2], lines[1::2], strict=True)):
            name, kind = _scene_of(change, "c")
            if name is None or name in self.done or _scene_of(same, "n")[0] != name:
                place = f"{self.path / ROWS}:{2 * number + 1}"
                raise InputError(f"{place} does not continue this data set", hint="choose another --out")
            self.done[name] = str(kind)
        scenes = _whole_lines(self.path / SCENES)[: len(self.done)]
        if len(scenes) < len(self.done):
            hint = "choose another --out, or make this one anew"
            raise InputError(f"{self.path / SCENES} has fewer scenes than {ROWS} has pairs of rows", hint=hint)
        _cut(self.path / ROWS, lines)
        _cut(self.path / SCENES, scenes)
        _sweep(self.path)


def _check_same_plan(path: Path, plan: DatasetPlan, folder: Path) -> None:
    there, here = (each.model_dump(mode="json") for each in (DatasetPlan.from_yaml(path), plan))
    for name in here:
        if there.get(name) != here[name]:
            raise InputError(
                f"{folder} was generated with another {name} ({there.get(name)}, not {here[name]})",
                hint="repeat the first settings to go on, or choose another --out",
            )


def _append(*parts: tuple[Path, list[dict[str, Any]]]) -> None:
    """Add lines to several files; on any failure all of them are as they were."""
    sizes = {path: path.stat().st_size if path.exists() else 0 for path, _ in parts}
    try:
        for path, values in parts:
            text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
            with path.open("ab") as lines:
                lines.write(text.encode())
                lines.flush()
                os.fsync(lines.fileno())
    except BaseException as error:
        for path, size in sizes.items():
            if path.exists():
                os.truncate(path, size)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {parts[0][0].parent}: {error.strerror or error}") from error
        raise


def _scene_of(line: bytes, side: str) -> tuple[str | None, object]:
    """Name and change of the scene a row belongs to; no name where it is no such row."""
    try:
        row = load_json(line)
        name, kind = row["id"], row["change_type"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, None
    return (name.removesuffix(side) if isinstance(name, str) and name.endswith(side) else None), kind


def _sweep(folder: Path) -> None:
    """Remove what interrupted writes left; nobody else writes here now."""
    for file in folder.glob("*/.*.*"):
        if re.fullmatch(r"\.\d{6,}_?[a-z]*\.\w{8}\.png", file.name):
            file.unlink(missing_ok=True)


def _whole_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return lines if not lines or lines[-1].endswith(b"\n") else lines[:-1]


def _cut(path: Path, lines: Iterable[bytes]) -> None:
    if path.exists():
        os.truncate(path, sum(map(len, lines)))
