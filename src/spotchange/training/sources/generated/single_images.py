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
_SHELF = 32  # batches of images that are kept to be shown again


@dataclass(frozen=True, kw_only=True)
class ImageTexts(NoNegatives):
    """Scenes drawn while training runs, one image and one text of each."""

    rules: SceneSettings
    quality: str
    alike: int = 1
    """Training images made of one scene, with other shapes and materials."""
    showings: int = 1
    """How often a training image is shown in the mean, each time with another text."""

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
            scenes = from_both_cameras(world.scenes(np.arange(first, min(first + at_once, pairs))))
            batches.append(self.described(run, scenes, self.drawn(run, world, scenes), seed=world.seed))
            texts = captions_text(write_image_texts(scenes, seed=world.seed))
            references += [[text] for text in texts]
        return HeldOut(batches=batches, references=references)

    def drawn(self, run: RunContext, world: World, scenes: SceneBatch) -> Tensor:
        """uint8 (S, 3, H, W): every scene as it was before."""
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
        return images[:, 0]

    def described(self, run: RunContext, scenes: SceneBatch, images: Tensor, *, seed: int) -> PairBatch:
        """The images with one text of each; the image stands on both sides, for no objective reads `after`."""
        ids: Tensor = torch.as_tensor(write_image_texts(scenes, seed=seed)).long()
        batch = PairBatch(
            before=images,
            after=images,
            caption_ids=ids,
            caption_mask=ids != PAD_ID,
            change_type=torch.full((len(scenes),), -1, device=images.device),
            scene_id=as_tensors(scenes).scene_id,
        )
        words = run.scene_words
        return batch if words is None else words.translate(batch)


class ImageTextBatches:
    """Scenes for ever. Like the stream of pairs, and resumed like it; what is kept to be shown again is drawn anew."""

    paired = False
    shares_before = False

    def __init__(self, source: ImageTexts, run: RunContext, images: int) -> None:
        self.source, self.run = source, run
        self.scenes, odd = divmod(images, source.alike)
        if odd:
            raise ConfigError(f"{images} images a step do not split into families of {source.alike}")
        self._fresh, odd = divmod(self.scenes, source.showings)
        if odd:
            raise ConfigError(f"{self.scenes} scenes a step are not a multiple of {source.showings} showings")
        self._shelf = Shelf(_SHELF * self.scenes) if source.showings > 1 else None
        self._steps = 0
        self.world = World(source.rules, seed=world_seed(run.seed), device=run.device_name)
        self.world.check_room()
        self._chunk_size = -(-_CHUNK[run.device.type] // self.scenes) * self.scenes  # whole batches: none is left over
        self._next = run.rank
        self._chunk: SceneBatch | None = None
        self._chunk_start = 0

    def next_batch(self) -> PairBatch:
        """The next scenes of this process, or such as were shown before together with some new ones."""
        source, seed = self.source, self.world.seed
        first = self._shelf is None or self._shelf.filled == 0
        scenes = from_both_cameras(families(self._next_scenes(self.scenes if first else self._fresh), source.alike))
        images = source.drawn(self.run, self.world, scenes)
        if self._shelf is not None:
            self._shelf.put(as_tensors(scenes), images, source.alike)
            self._steps += 1
            chooser = torch.Generator(images.device).manual_seed((seed + self._steps) % 2**63)
            scenes, images = self._shelf.take(self.scenes, chooser)
        return source.described(self.run, scenes, images, seed=seed + self._steps)

    def _next_scenes(self, count: int) -> SceneBatch:
        step = self.run.processes
        taken = (self._next - self._chunk_start) // step
        if self._chunk is None or not 0 <= taken <= len(self._chunk) - count:
            self._chunk_start, taken = self._next, 0
            self._chunk = self.world.scenes(self._next + step * np.arange(self._chunk_size))
        self._next += count * step
        return self._chunk[taken : taken + count]

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands, for all processes alike."""
        return {"seed": self.world.seed, "next_scene": self._next - self.run.rank}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        if state["seed"] != self.world.seed:
            raise ConfigError("the stream was saved with another seed")
        self._next, self._chunk = state["next_scene"] + self.run.rank, None


class Shelf:
    """Families of images and their scenes, the latest ones; drawing an image costs more than learning from it once."""

    def __init__(self, families: int) -> None:
        self.families = families
        self.filled = 0
        self._at = 0
        self._kept: dict[str, Tensor] = {}

    def put(self, scenes: SceneBatch, images: Tensor, alike: int) -> None:
        """Keep them, in the place of the oldest."""
        new = {field.name: getattr(scenes, field.name) for field in fields(SceneBatch)} | {"images": images}
        count = len(images) // alike
        places = torch.arange(self._at, self._at + count, device=images.device) % self.families
        for name, value in new.items():
            value = value.reshape(count, alike, *value.shape[1:])
            if name not in self._kept:
                self._kept[name] = value.new_empty((self.families, *value.shape[1:]))
            self._kept[name][places.to(value.device)] = value
        self._at = (self._at + count) % self.families
        self.filled = min(self.filled + count, self.families)

    def take(self, count: int, chooser: torch.Generator) -> tuple[SceneBatch, Tensor]:
        """So many families, chosen at random, none twice."""
        chosen = torch.randperm(self.filled, generator=chooser, device=chooser.device)[:count]
        taken = {name: value[chosen.to(value.device)].flatten(0, 1) for name, value in self._kept.items()}
        images = taken.pop("images")
        return SceneBatch(**taken), images


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
