"""Single generated pictures with texts about them: training batches and held-out ones for `picture-text`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.sources import StreamSource
from spotchange.errors import ConfigError
from spotchange.language.picture_texts import write_picture_texts
from spotchange.language.vocabulary import PAD_ID
from spotchange.language.writer import captions_text
from spotchange.pairs import PairBatch
from spotchange.scene import BEFORE, SAME, SceneBatch
from spotchange.scenes.changes import as_tensors
from spotchange.scenes.pictures import draw_pictures
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.training.validation import HeldOut

if TYPE_CHECKING:
    from spotchange.training.sources.build import Feeding

_CHUNK = {"cpu": 32, "cuda": 32768}  # scenes sampled together


class PictureBatches:
    """Fresh scenes for ever, one picture and one text each. A source like the stream of pairs, and resumed like it."""

    paired = False
    shares_before = False

    def __init__(self, feeding: Feeding, settings: StreamSource, pictures: int) -> None:
        self.feeding, self.settings, self.pictures = feeding, settings, pictures
        self.scenes = settings.scene_settings()
        self.world = World(self.scenes, seed=world_seed(feeding.recipe.seed), device=feeding.device_name)
        self.world.check_room()
        chunk = _CHUNK[feeding.device.type]
        self._chunk_size = -(-chunk // pictures) * pictures  # whole batches, so that none is left over
        self._translate = feeding.translation()
        self._next = feeding.rank
        self._chunk: SceneBatch | None = None
        self._chunk_start = 0

    def next_batch(self) -> PairBatch:
        """The next scenes of this process."""
        step = self.feeding.processes
        taken = (self._next - self._chunk_start) // step
        if self._chunk is None or not 0 <= taken <= len(self._chunk) - self.pictures:
            self._chunk_start, taken = self._next, 0
            self._chunk = self.world.scenes(self._next + step * np.arange(self._chunk_size))
        self._next += self.pictures * step
        batch = picture_batch(self.feeding, self.settings, self.world, self._chunk[taken : taken + self.pictures])
        return batch if self._translate is None else self._translate(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands, for all processes alike."""
        return {"seed": self.world.seed, "next_scene": self._next - self.feeding.rank}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        if state["seed"] != self.world.seed:
            raise ConfigError("the stream was saved with another seed")
        self._next, self._chunk = state["next_scene"] + self.feeding.rank, None


def picture_source(feeding: Feeding, pictures: int) -> PictureBatches:
    """Training batches of `pictures` rows."""
    data = feeding.recipe.data
    if not isinstance(data, StreamSource):
        raise ConfigError("picture-text reads generated scenes: set data.kind to stream")
    return PictureBatches(feeding, data, pictures)


def held_out_pictures(feeding: Feeding) -> HeldOut:
    """Pictures of the validation split with their texts; `validation.pairs` says how many."""
    validation = feeding.recipe.validation
    settings = validation.data or feeding.recipe.data
    if not isinstance(settings, StreamSource):
        raise ConfigError("picture-text is validated on generated scenes: leave validation.data out")
    seed = world_seed(feeding.recipe.seed, "val")
    world = World(settings.scene_settings(), seed=seed, device=feeding.device_name)
    translate = feeding.translation()
    batches, references = [], []
    for first in range(0, validation.pairs, validation.pairs_per_batch):
        numbers = np.arange(first, min(first + validation.pairs_per_batch, validation.pairs))
        scenes = world.scenes(numbers)
        batch = picture_batch(feeding, settings, world, scenes)
        batches.append(batch if translate is None else translate(batch))
        references += [[text] for text in captions_text(write_picture_texts(from_both_cameras(scenes), seed=seed))]
    return HeldOut(batches=batches, references=references)


def picture_batch(feeding: Feeding, settings: StreamSource, world: World, scenes: SceneBatch) -> PairBatch:
    """One picture and one text of every scene; the picture stands on both sides, for no objective reads `after`."""
    scenes = from_both_cameras(scenes)
    height, width = feeding.start.settings.vision.image_size
    images, _ = draw_pictures(
        scenes,
        world.settings.look,
        seed=world.seed,
        width=width,
        height=height,
        quality=settings.quality,
        device=feeding.device_name,
        pictures=(BEFORE,),
    )
    ids: Tensor = torch.as_tensor(write_picture_texts(scenes, seed=world.seed)).long()
    return PairBatch(
        before=images[:, 0],
        after=images[:, 0],
        caption_ids=ids,
        caption_mask=ids != PAD_ID,
        change_type=torch.full((len(scenes),), -1, device=images.device),
        scene_id=as_tensors(scenes).scene_id,
    )


def from_both_cameras(scenes: SceneBatch) -> SceneBatch:
    """The scenes before, every other one seen by the distractor's camera: second pictures stand elsewhere."""
    camera = scenes.camera + 0  # a copy, numpy or torch
    odd = (scenes.scene_id % 2)[:, None]
    camera[:, BEFORE] += odd * (camera[:, SAME] - camera[:, BEFORE])
    return replace(scenes, camera=camera)
