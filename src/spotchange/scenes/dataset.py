"""Writes a data set of generated scenes, so that it can be interrupted anywhere and goes on where it stopped.

Pictures are written first, the scene's lines after them, both rows of a scene in one go: whatever happens, the
metadata file names whole pairs whose pictures exist.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from spotchange.config.scenes import DatasetPlan
from spotchange.errors import InputError
from spotchange.files import load_json, write_bytes
from spotchange.language.writer import captions_text, write_captions
from spotchange.locks import one_writer
from spotchange.scene import SceneBatch
from spotchange.scenes.changes import scene_json
from spotchange.scenes.export import (
    PICTURE_NAMES,
    change_mask,
    encode_png,
    mask_file,
    object_boxes,
    picture_file,
    scene_name,
    scene_rows,
)
from spotchange.scenes.pictures import draw_pictures
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed

ROWS, SCENES, PLAN = "metadata.jsonl", "scenes.jsonl", "generator.yaml"
_SCENES_AT_ONCE = {"cpu": 2, "cuda": 128}  # few, where they take long: progress shows, and little is lost


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a split holds now."""

    split: str
    pairs: int
    new_pairs: int
    change_types: dict[str, int]


def generate_split(
    plan: DatasetPlan,
    *,
    out: Path,
    scenes: int,
    start: int = 0,
    device: str = "cpu",
    on_pairs: Callable[[int], None] = lambda pairs: None,
) -> Written:
    """Write scenes `start` to `start + scenes - 1` of a split below `out`; those already there are kept.

    Args:
        plan: What to write.
        out: The data set's folder; the split is a folder in it.
        scenes: Each gives two pairs.
        start: Number of the first scene.
        device: "cpu" or a CUDA device.
        on_pairs: Told how many pairs were finished, as they are.
    """
    world = World(plan.scenes, seed=world_seed(plan.seed, plan.split), device=device)
    world.check_room()
    with one_writer(out / plan.split):
        folder = SplitFolder(out / plan.split, plan)
        numbers = range(start, start + scenes)
        wanted = [number for number in numbers if scene_name(number) not in folder.done]
        damaged = [number for number in numbers if scene_name(number) in folder.done and folder.lacks_pictures(number)]
        on_pairs(2 * (scenes - len(wanted) - len(damaged)))
        _draw(folder, world, [*damaged, *wanted], device, on_pairs)
        return folder.summary(new_pairs=2 * len(wanted))


def _draw(folder: SplitFolder, world: World, wanted: list[int], device: str, on_pairs: Callable[[int], None]) -> None:
    """Make scenes and add them; those that are there already get their pictures again."""
    plan, seed = folder.plan, world.seed
    step = _SCENES_AT_ONCE[device.partition(":")[0]]
    with _Pool(min(8, os.cpu_count() or 1)) as pool:
        for first in range(0, len(wanted), step):
            batch = world.scenes(wanted[first : first + step])
            images, ids = draw_pictures(
                batch,
                plan.scenes.look,
                seed=seed,
                width=plan.width,
                height=plan.height,
                quality=plan.quality,
                device=device,
            )
            captions = write_captions(batch, seed=seed, per_pair=plan.references)
            folder.add(_on_host(batch), images.cpu().numpy(), ids.cpu().numpy(), _as_text(captions), pool)
            on_pairs(2 * len(batch))


class SplitFolder:
    """One split on disk: its plan, its rows, its scenes."""

    def __init__(self, path: Path, plan: DatasetPlan) -> None:
        self.path, self.plan = path, plan
        self.done: dict[str, str] = {}  # scene name -> change type
        if (path / PLAN).exists():
            _check_same_plan(path / PLAN, plan)
            self._repair()
        elif (path / ROWS).exists():
            raise InputError(f"{path} holds a data set made by something else", hint="choose another --out or --split")
        else:
            plan.save(path / PLAN)

    def add(
        self,
        batch: SceneBatch,
        images: np.ndarray,
        ids: np.ndarray,
        captions: list[list[list[str]]],
        pool: ThreadPoolExecutor,
    ) -> None:
        """Write pictures and then lines of scenes, given as numpy arrays."""
        list(pool.map(lambda scene: self._write_pictures(batch, scene, images[scene], ids[scene]), range(len(batch))))
        rows, scenes = [], []
        for scene in range(len(batch)):
            name = scene_name(int(batch.scene_id[scene]))
            if name in self.done:
                continue
            pair = scene_rows(batch, scene, object_boxes(ids[scene]), captions[scene], masks=self.plan.masks)
            rows += [row.to_dict() for row in pair]
            scenes.append(scene_json(batch, scene, name))
            self.done[name] = str(pair[0].change_type)
        _append((self.path / SCENES, scenes), (self.path / ROWS, rows))

    def lacks_pictures(self, number: int) -> bool:
        """Whether a picture of a scene is missing or empty, as after a full disk or a copy that was cut short."""
        files = [picture_file(number, picture) for picture in range(len(PICTURE_NAMES))]
        files += [mask_file(number)] if self.plan.masks else []
        try:
            return any((self.path / file).stat().st_size == 0 for file in files)
        except OSError:
            return True

    def summary(self, *, new_pairs: int) -> Written:
        """What is there now."""
        kinds = sorted(self.done.values())
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} | {"none": len(kinds)}
        return Written(split=self.plan.split, pairs=2 * len(kinds), new_pairs=new_pairs, change_types=counts)

    def _write_pictures(self, batch: SceneBatch, scene: int, images: np.ndarray, ids: np.ndarray) -> None:
        number = int(batch.scene_id[scene])
        for picture in range(len(PICTURE_NAMES)):
            write_bytes(self.path / picture_file(number, picture), encode_png(images[picture]))
        if self.plan.masks:
            write_bytes(self.path / mask_file(number), encode_png(change_mask(batch, scene, ids)))

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


class _Pool(ThreadPoolExecutor):
    """Drops what is not yet begun when its work is interrupted."""

    def __exit__(self, *error: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


def _check_same_plan(path: Path, plan: DatasetPlan) -> None:
    there, here = (each.model_dump(mode="json") for each in (DatasetPlan.from_yaml(path), plan))
    for name in here:
        if there.get(name) != here[name]:
            raise InputError(
                f"{path.parent} was generated with another {name} ({there.get(name)}, not {here[name]})",
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


def _on_host(batch: SceneBatch) -> SceneBatch:
    arrays = {field.name: getattr(batch, field.name) for field in fields(SceneBatch)}
    return SceneBatch(
        **{name: array if isinstance(array, np.ndarray) else array.cpu().numpy() for name, array in arrays.items()}
    )


def _as_text(captions: Any) -> list[list[list[str]]]:
    """Sentences (scenes, pairs, references) of an array of token ids."""
    scenes, pairs, references, _ = captions.shape
    text = iter(captions_text(captions))
    return [[[next(text) for _ in range(references)] for _ in range(pairs)] for _ in range(scenes)]
