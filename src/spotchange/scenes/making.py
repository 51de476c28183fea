"""Draws scenes of a data set: numbers in; images as files, rows and the scene's facts out, nothing written yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from spotchange.config.scenes import DatasetPlan
from spotchange.errors import InputError
from spotchange.language.writer import captions_text, write_captions
from spotchange.scenes.changes import scene_json
from spotchange.scenes.export import VIEW_NAMES, change_mask, encode_png, object_boxes, scene_name, scene_rows
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.scenes.views import draw_views

SCENES_AT_ONCE = {"cpu": 2, "cuda": 128}  # few, where they take long: progress shows, and little is lost


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
        step = SCENES_AT_ONCE[self.device.partition(":")[0]]

        def scenes(numbers: Sequence[int]) -> Iterator[MadeScene]:
            with Pool(min(8, os.cpu_count() or 1)) as pool:
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
        batch, pixels, objects = drawn.on_host(), images.cpu().numpy(), ids.cpu().numpy()

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


class Pool(ThreadPoolExecutor):
    """Drops what is not yet begun when its work is interrupted."""

    def __exit__(self, *error: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


def _as_text(captions: Any) -> list[list[list[str]]]:
    """Sentences (scenes, pairs, references) of an array of token ids."""
    scenes, pairs, references, _ = captions.shape
    text = iter(captions_text(captions))
    return [[[next(text) for _ in range(references)] for _ in range(pairs)] for _ in range(scenes)]
