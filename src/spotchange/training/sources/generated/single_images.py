"""Single generated images with texts about them as a source, for `image-text`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.scenes import SceneSettings
from spotchange.errors import ConfigError
from spotchange.language import PAD_ID
from spotchange.language.image_texts import write_image_texts
from spotchange.language.writer import captions_text
from spotchange.pairs import PairBatch
from spotchange.scene import BEFORE, MATERIAL, MAX_OBJECTS, SAME, SHAPE, SceneBatch
from spotchange.scenes.changes import as_tensors
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.scenes.views import draw_views
from spotchange.training.sources.interface import HeldOut, NoNegatives, RunContext

_CHUNK = {"cpu": 32, "cuda": 32768}  # scenes sampled together


@dataclass(frozen=True, kw_only=True)
class ImageTexts(NoNegatives):
    """Scenes drawn while training runs, one image and one text of each."""

    rules: SceneSettings
    quality: str
    alike: int = 1
    """Training images made of one scene, with other shapes and materials."""

    def captions(self) -> Iterable[str]:
        return ()

    def batches(self, run: RunContext, pairs: int) -> ImageTextBatches:
        return ImageTextBatches(self, run, pairs)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut | None:
        """Images of the validation split with their texts."""
        if split != "val":
            return None
        world = World(self.rules, seed=world_seed(run.seed, "val"), device=run.device_name)
        batches, references = [], []
        for first in range(0, pairs, at_once):
            scenes = world.scenes(np.arange(first, min(first + at_once, pairs)))
            batches.append(self.rows(run, world, scenes))
            texts = captions_text(write_image_texts(from_both_cameras(scenes), seed=world.seed))
            references += [[text] for text in texts]
        return HeldOut(batches=batches, references=references)

    def rows(self, run: RunContext, world: World, scenes: SceneBatch) -> PairBatch:
        """One image and one text of every scene; the image stands on both sides, for no objective reads `after`."""
        scenes = from_both_cameras(scenes)
        height, width = run.image_size
        images, _ = draw_views(
            scenes,
            world.settings.look,
            seed=world.seed,
            width=width,
            height=height,
            quality=self.quality,
            device=run.device_name,
            views=(BEFORE,),
        )
        ids: Tensor = torch.as_tensor(write_image_texts(scenes, seed=world.seed)).long()
        batch = PairBatch(
            before=images[:, 0],
            after=images[:, 0],
            caption_ids=ids,
            caption_mask=ids != PAD_ID,
            change_type=torch.full((len(scenes),), -1, device=images.device),
            scene_id=as_tensors(scenes).scene_id,
        )
        words = run.scene_words
        return batch if words is None else words.translate(batch)


class ImageTextBatches:
    """Fresh scenes for ever. Like the stream of pairs, and resumed like it."""

    paired = False
    shares_before = False

    def __init__(self, source: ImageTexts, run: RunContext, images: int) -> None:
        self.source, self.run = source, run
        self.scenes, odd = divmod(images, source.alike)
        if odd:
            raise ConfigError(f"{images} images a step do not split into families of {source.alike}")
        self.world = World(source.rules, seed=world_seed(run.seed), device=run.device_name)
        self.world.check_room()
        self._chunk_size = -(-_CHUNK[run.device.type] // self.scenes) * self.scenes  # whole batches: none is left over
        self._next = run.rank
        self._chunk: SceneBatch | None = None
        self._chunk_start = 0

    def next_batch(self) -> PairBatch:
        """The next scenes of this process."""
        step = self.run.processes
        taken = (self._next - self._chunk_start) // step
        if self._chunk is None or not 0 <= taken <= len(self._chunk) - self.scenes:
            self._chunk_start, taken = self._next, 0
            self._chunk = self.world.scenes(self._next + step * np.arange(self._chunk_size))
        self._next += self.scenes * step
        scenes = self._chunk[taken : taken + self.scenes]
        return self.source.rows(self.run, self.world, families(scenes, self.source.alike))

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands, for all processes alike."""
        return {"seed": self.world.seed, "next_scene": self._next - self.run.rank}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        if state["seed"] != self.world.seed:
            raise ConfigError("the stream was saved with another seed")
        self._next, self._chunk = state["next_scene"] + self.run.rank, None


def families(scenes: SceneBatch, size: int) -> SceneBatch:
    """`size` scenes of each: the scene itself, and copies with the shapes and materials of the scenes after it."""
    if size == 1:
        return scenes
    given = as_tensors(scenes)
    rows = torch.arange(size * len(given), device=given.scene_id.device)
    member = rows % size
    made, donor = given[rows // size], given[(rows // size + member) % len(given)]
    slots = torch.arange(MAX_OBJECTS, device=rows.device)
    drawn = donor.attributes[rows[:, None], 0, slots % donor.count[:, :1].long()]  # fewer objects: some of them twice
    attributes = made.attributes.clone()
    for attribute in (SHAPE, MATERIAL):
        there = made.attributes[:, 0, :, SHAPE] >= 0
        attributes[:, 0, :, attribute] = torch.where(there, drawn[..., attribute], made.attributes[:, 0, :, attribute])
    made = replace(made, scene_id=size * made.scene_id + member, attributes=attributes)
    if isinstance(scenes.scene_id, Tensor):
        return made
    return SceneBatch(**{field.name: getattr(made, field.name).numpy() for field in fields(SceneBatch)})


def from_both_cameras(scenes: SceneBatch) -> SceneBatch:
    """The scenes before, every other one seen by the distractor's camera: second images stand elsewhere."""
    camera = scenes.camera + 0  # a copy, numpy or torch
    odd = (scenes.scene_id % 2)[:, None]
    camera[:, BEFORE] += odd * (camera[:, SAME] - camera[:, BEFORE])
    return replace(scenes, camera=camera)
