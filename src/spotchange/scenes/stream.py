"""The training stream: scenes drawn, rendered and described on the device, none seen twice, nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from spotchange.config.scenes import SceneSettings
from spotchange.errors import ConfigError
from spotchange.language import PAD_ID, TOKENS
from spotchange.language.writer import write_captions
from spotchange.pairs import PairBatch
from spotchange.scene import AFTER, BEFORE, SAME, SceneBatch
from spotchange.scenes.changes import answers, as_tensors
from spotchange.scenes.patch_labels import patch_truth
from spotchange.scenes.rendering.renderer import QUALITIES
from spotchange.scenes.sampler import World
from spotchange.scenes.views import draw_views

# The streams of one seed: a model never trains on a scene of the splits that are generated with its seed.
SPLIT_STREAMS = {"train": 0, "val": 1, "test": 2}
_TRAINING_STREAM = 3
_STREAMS = 4

PLAIN_CHOICES = 8  # sentences drawn to choose the plainest from: nine times of ten a full description is among them
# Plain sentences have one word for each meaning: with two words for a cube and one for a cylinder, a model in doubt
# gives the cylinder more of its belief than either word of the cube, and calls cubes cylinders.
_PLAIN_WORDS = {"block": "cube", "ball": "sphere", "matte": "rubber", "metallic": "metal", "shiny": "metal",
                "big": "large", "tiny": "small"}  # fmt: skip
PLAIN_IDS = tuple(TOKENS.index(_PLAIN_WORDS.get(word, word)) for word in TOKENS)
RELATION_IDS = tuple(TOKENS.index(word) for word in ("left", "right", "behind", "front"))

_CHUNK = {"cpu": 32, "cuda": 32768}


def world_seed(seed: int, split: str | None = None) -> int:
    """The seed of a split's world, or of the training stream's."""
    return seed * _STREAMS + (_TRAINING_STREAM if split is None else SPLIT_STREAMS[split])


class SceneStream:
    """Endless batches of fresh pairs: rows 2k and 2k + 1 are the change and the distractor of one scene.

    Rank r of w takes the scenes r, r + w, r + 2w and so on, so ranks never share a scene. The stream stands at a
    scene number and nothing else: `state_dict` is enough to go on exactly, with any batch size.
    """

    def __init__(
        self,
        settings: SceneSettings,
        *,
        device: str,
        seed: int,
        scenes_per_batch: int,
        rank: int = 0,
        world_size: int = 1,
        width: int = 224,
        height: int = 224,
        grid: tuple[int, int] = (7, 7),
        quality: str = "fast",
        plain_sentences: bool = False,
        scenes_per_chunk: int | None = None,
    ) -> None:
        """Prepare the stream; nothing is drawn before the first batch is asked for.

        Args:
            settings: Rules of the scenes and how their look varies.
            device: "cpu", "cuda" or "cuda:N".
            seed: With the scene's number it fixes everything about a pair.
            scenes_per_batch: Each gives two rows.
            rank: Which part of the scenes this process takes.
            world_size: How many processes share them.
            width: Of the images, in pixels.
            height: See width.
            grid: Rows and columns of patches, for the truth per patch.
            quality: Effort of the renderer, a name in `render.QUALITIES`.
            plain_sentences: Describe the changed object fully and bring in another one only where that is needed.
            scenes_per_chunk: Scenes sampled together ahead of rendering; it does not change what is drawn.
        """
        if scenes_per_batch < 1:
            raise ConfigError(f"scenes_per_batch must be at least 1, not {scenes_per_batch}")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank {rank} is not one of {world_size}")
        if quality not in QUALITIES:
            raise ConfigError(f"unknown quality '{quality}'", hint=f"one of: {', '.join(QUALITIES)}")
        if width < grid[1] or height < grid[0]:
            raise ConfigError(f"images of {width}x{height} pixels do not hold {grid[0]} rows of {grid[1]} patches")
        self.settings, self.seed, self.device = settings, seed, device
        self.rank, self.world_size, self.scenes_per_batch = rank, world_size, scenes_per_batch
        self.width, self.height, self.grid, self.quality = width, height, grid, quality
        self.plain_sentences = plain_sentences
        self.world = World(settings, seed=world_seed(seed), device=device)
        self.world.check_room()
        chunk = scenes_per_chunk or _CHUNK[device.partition(":")[0]]
        self.scenes_per_chunk = (
            -(-chunk // scenes_per_batch) * scenes_per_batch
        )  # whole batches, so that none is left over
        self._next = rank  # number of the next scene
        self._chunk: SceneBatch | None = None
        self._chunk_start = rank

    def __iter__(self) -> Iterator[PairBatch]:
        return self

    def __next__(self) -> PairBatch:
        batch = self._take(self.scenes_per_batch)
        self._next += self.scenes_per_batch * self.world_size
        return self.render_pairs(batch)

    def state_dict(self) -> dict[str, int]:
        """Where the stream stands, for all ranks alike."""
        return {"seed": self.seed, "next_scene": self._next - self.rank}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where another stream of the same seed stopped."""
        if state["seed"] != self.seed:
            raise ConfigError(f"the stream was saved with seed {state['seed']}, not {self.seed}")
        self._next = state["next_scene"] + self.rank

    def render_pairs(self, batch: SceneBatch) -> PairBatch:
        """Both pairs of every scene, with captions and truth."""
        images, ids = draw_views(
            batch,
            self.settings.look,
            seed=self.world.seed,
            width=self.width,
            height=self.height,
            quality=self.quality,
            device=self.device,
        )
        scenes = as_tensors(batch)
        drawn = PLAIN_CHOICES if self.plain_sentences else 1
        captions = torch.as_tensor(write_captions(batch, seed=self.world.seed, per_pair=drawn))
        chosen = plainest(captions) if self.plain_sentences else captions[:, :, 0]
        captions = chosen.reshape(2 * len(batch), -1).long()
        attributes, mask = patch_truth(scenes, ids, self.grid)
        return PairBatch(
            before=_pair_up(images[:, BEFORE], images[:, BEFORE]),
            after=_pair_up(images[:, AFTER], images[:, SAME]),
            caption_ids=captions,
            caption_mask=captions != PAD_ID,
            change_type=_pair_up(scenes.change.long(), torch.zeros_like(scenes.change).long()),
            scene_id=_pair_up(scenes.scene_id, scenes.scene_id),
            patch_attributes=attributes,
            change_mask=mask,
            answer=_pair_up(answers(scenes), torch.full((len(batch), 6), -1, device=images.device)),
        )

    def _take(self, scenes: int) -> SceneBatch:
        """The next scenes of this rank, from a chunk sampled ahead."""
        step = self.world_size
        if self._chunk is not None:
            first, odd = divmod(self._next - self._chunk_start, step)
            if odd == 0 and first >= 0 and first + scenes <= len(self._chunk):
                return self._chunk[first : first + scenes]
        self._chunk_start = self._next
        self._chunk = self.world.scenes(self._next + step * np.arange(self.scenes_per_chunk))
        return self._chunk[:scenes]


def plainest(captions: Tensor) -> Tensor:
    """Of several sentences a pair (S, 2, choices, words) the longest without a relation; distractors keep their first.

    Where every sentence has a relation the object has a twin, and the longest one stays. Synonyms become one word.
    """
    relations = torch.isin(captions, torch.tensor(RELATION_IDS, dtype=captions.dtype, device=captions.device)).any(-1)
    lengths = (captions != PAD_ID).sum(-1)
    best = (lengths - captions.shape[-1] * relations).argmax(-1)  # (S, 2)
    best[:, 1] = 0
    chosen = captions.gather(2, best[:, :, None, None].expand(-1, -1, 1, captions.shape[-1]))[:, :, 0]
    return torch.tensor(PLAIN_IDS, dtype=captions.dtype, device=captions.device)[chosen.long()]


def _pair_up(change: Tensor, distractor: Tensor) -> Tensor:
    """Rows of changes and distractors in turn."""
    return torch.stack([change, distractor], 1).flatten(0, 1)
