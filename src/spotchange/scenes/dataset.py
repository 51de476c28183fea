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
from dataclasses import dataclass, fields
from itertools import islice
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
    VIEW_NAMES,
    change_mask,
    encode_png,
    image_file,
    mask_file,
    object_boxes,
    scene_name,
    scene_rows,
)
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.scenes.views import draw_views
from spotchange.storage import Outgoing, StorePath, check_writable, outgoing_folder

ROWS, SCENES, PLAN = "metadata.jsonl", "scenes.jsonl", "generator.yaml"
_SCENES_AT_ONCE = {"cpu": 2, "cuda": 128}  # few, where they take long: progress shows, and little is lost


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a split holds now."""

    split: str
    pairs: int
    new_pairs: int
    change_types: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class MadeScene:
    """A scene as it is written."""

    number: int
    images: tuple[bytes, ...]
    mask: bytes | None
    rows: tuple[dict[str, Any], dict[str, Any]]
    scene: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SceneWork:
    """Numbers of scenes to scenes as they are written; here, or in a worker of a cluster."""

    plan: DatasetPlan
    device: str

    def start(self) -> Callable[[Sequence[int]], Iterator[MadeScene]]:
        """Ready to draw."""
        world = World(self.plan.scenes, seed=world_seed(self.plan.seed, self.plan.split), device=self.device)
        world.check_room()
        step = _SCENES_AT_ONCE[self.device.partition(":")[0]]

        def scenes(numbers: Sequence[int]) -> Iterator[MadeScene]:
            with _Pool(min(8, os.cpu_count() or 1)) as pool:
                for first in range(0, len(numbers), step):
                    yield from self._make(world, numbers[first : first + step], pool)

        return scenes

    def failed(self, item: int, reason: str) -> MadeScene:
        """Scenes are all or nothing: a data set has no rows of errors."""
        raise InputError(f"scene {item}: {reason}", hint="run the same command again to go on")

    def _make(self, world: World, numbers: Sequence[int], pool: ThreadPoolExecutor) -> Iterator[MadeScene]:
        plan = self.plan
        drawn = world.scenes(list(numbers))
        images, ids = draw_views(
            drawn,
            plan.scenes.look,
            seed=world.seed,
            width=plan.width,
            height=plan.height,
            quality=plan.quality,
            device=self.device,
        )
        captions = _as_text(write_captions(drawn, seed=world.seed, per_pair=plan.references))
        batch, pixels, objects = _on_host(drawn), images.cpu().numpy(), ids.cpu().numpy()

        def made(scene: int) -> MadeScene:
            number = int(batch.scene_id[scene])
            change, same = scene_rows(batch, scene, object_boxes(objects[scene]), captions[scene], masks=plan.masks)
            return MadeScene(
                number=number,
                images=tuple(encode_png(pixels[scene, view]) for view in range(len(VIEW_NAMES))),
                mask=encode_png(change_mask(batch, scene, objects[scene])) if plan.masks else None,
                rows=(change.to_dict(), same.to_dict()),
                scene=scene_json(batch, scene, scene_name(number)),
            )

        return pool.map(made, range(len(batch)))


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
        with _Pool(min(8, os.cpu_count() or 1)) as pool:
            while made := list(islice(scenes_made, _SCENES_AT_ONCE[device.partition(":")[0]])):
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


class _Pool(ThreadPoolExecutor):
    """Drops what is not yet begun when its work is interrupted."""

    def __exit__(self, *error: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


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
