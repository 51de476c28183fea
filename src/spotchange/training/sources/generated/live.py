"""Pairs made while training runs, none seen twice: generated scenes, and everyday things pasted on photos and rooms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.scenes import SceneSettings
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.data.negatives.scenes import SceneNegatives
from spotchange.errors import ConfigError
from spotchange.everyday.language.wording import frame_text
from spotchange.everyday.library import read_library
from spotchange.everyday.stream import EverydayStream
from spotchange.language import check
from spotchange.language.writer import captions_text, write_captions
from spotchange.pairs import PairBatch
from spotchange.scenes.changes import scene_json
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import PLAIN_CHOICES, SceneStream, plainest, world_seed
from spotchange.training.sources.generated.retokenise import WordTable
from spotchange.training.sources.interface import HeldOut, NegativePlan, Negatives, NoNegatives, RunContext
from spotchange.training.sources.negatives import WrittenNegatives

REFERENCES = 5  # sentences about each held-out pair
_SCENES_TO_RETRIEVE_FROM = 1000  # whose captions negatives are retrieved from; the stream's own never end
_CAPTIONS_EACH = 3


@dataclass(frozen=True, kw_only=True)
class LiveScenes:
    """Scenes drawn, rendered and described on the device; some of the world are kept apart."""

    rules: SceneSettings
    quality: str
    plain: bool
    """Describe the changed object fully, and bring in another one only where that is needed."""

    def captions(self) -> Iterable[str]:
        return ()

    def batches(self, run: RunContext, pairs: int) -> SceneBatches:
        return SceneBatches(self.stream(run, pairs), run.scene_words)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut:
        """Scenes of a split that the world keeps apart, the same ones in every process."""
        return as_held_out(self.drawn(run, run.seed, split, pairs=pairs, at_once=at_once), run)

    def negatives(self, run: RunContext, plan: NegativePlan, *, mirrored: bool = False) -> Negatives:
        """In ids, on the device, where the model has the scenes' own words; other tokens are written."""
        captions = self.sentences(run)
        if run.scene_words is None:
            return SceneNegatives(captions, counts=plan.counts, denials=plan.denials)
        writer = NegativeWriter(captions_text(captions), counts=plan.counts, denials=plan.denials)
        return WrittenNegatives(writer, run.coder())

    def sentences(self, run: RunContext) -> Tensor:
        """Sentences to retrieve from, as ids of scene words on the device: those of the stream's first scenes."""
        world = World(self.rules, seed=world_seed(run.seed), device=run.device_name)
        scenes = world.scenes(np.arange(_SCENES_TO_RETRIEVE_FROM))
        drawn = write_captions(scenes, seed=world.seed, per_pair=PLAIN_CHOICES if self.plain else _CAPTIONS_EACH)
        captions = torch.as_tensor(drawn).to(run.device)
        return (plainest(captions) if self.plain else captions).flatten(0, -2).long()

    def stream(self, run: RunContext, pairs: int, seed: int | None = None) -> SceneStream:
        """The stream of this process; with a seed of its own, one that all processes share."""
        check_even(pairs)
        height, width = run.image_size
        return SceneStream(
            self.rules,
            device=run.device_name,
            seed=run.seed if seed is None else seed,
            scenes_per_batch=pairs // 2,
            rank=run.rank if seed is None else 0,
            world_size=run.processes if seed is None else 1,
            width=width,
            height=height,
            grid=run.grid,
            quality=self.quality,
            plain_sentences=self.plain,
        )

    def drawn(self, run: RunContext, seed: int, split: str, *, pairs: int, at_once: int) -> dict[str, Any]:
        """Held-out pairs, sentences about each, and the scenes they show."""
        per_batch = min(at_once, pairs) // 2
        stream = self.stream(run, 2 * per_batch)
        world = World(self.rules, seed=world_seed(seed, split), device=run.device_name)
        batches, references, scenes = [], [], []
        for first in range(0, pairs // 2, per_batch):
            drawn = world.scenes(np.arange(first, min(first + per_batch, pairs // 2)))
            batches.append(dict(vars(stream.render_pairs(drawn))))
            texts = captions_text(write_captions(drawn, seed=world.seed, per_pair=REFERENCES))
            references += [texts[i : i + REFERENCES] for i in range(0, len(texts), REFERENCES)]
            on_host = drawn.on_host()
            scenes += [scene_json(on_host, i, "") for i in range(len(on_host))]
        return {"batches": batches, "references": references, "scenes": scenes}


class SceneBatches:
    """The generated stream in the model's words."""

    paired = True
    shares_before = True

    def __init__(self, stream: SceneStream, words: WordTable | None) -> None:
        self.stream, self.words = stream, words

    def next_batch(self) -> PairBatch:
        """Fresh scenes: each a change row and a distractor row."""
        batch = next(self.stream)
        return batch if self.words is None else self.words.translate(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands."""
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.stream.load_state_dict(state)


@dataclass(frozen=True, kw_only=True)
class EverydayPairs(NoNegatives):
    """Everyday things of a library pasted on its photos and rooms."""

    library: Path
    split: str
    """Of the library: things and backgrounds of this split alone."""
    shares: Mapping[str, float]
    """How often kinds of change are drawn, relative to each other."""
    most_objects: int | None = None
    most_backgrounds: int | None = None

    def captions(self) -> Iterable[str]:
        return ()

    def batches(self, run: RunContext, pairs: int) -> EverydayStream:
        return self._stream(run, pairs, "train", rank=run.rank, processes=run.processes)

    def held_out(self, run: RunContext, *, pairs: int, at_once: int, split: str = "val") -> HeldOut:
        """Pairs of a split that all processes share; their frames are the references."""
        stream = self._stream(run, min(at_once, pairs), split)
        batches: list[PairBatch] = [stream.next_batch() for _ in range(max(1, pairs // stream.pairs))]
        references = [[frame_text(ids)] for batch in batches for ids in batch.caption_ids.tolist()]
        return HeldOut(batches=batches, references=references)

    def _stream(self, run: RunContext, pairs: int, split: str, *, rank: int = 0, processes: int = 1) -> EverydayStream:
        library = read_library(
            self.library,
            split=self.split,
            device=run.device,
            most_objects=self.most_objects,
            most_backgrounds=self.most_backgrounds,
        )
        return EverydayStream(
            library,
            pairs=pairs,
            side=run.image_size[0],
            grid=run.grid,
            seed=run.seed,
            split=split,
            rank=rank,
            processes=processes,
            shares=self.shares,
        )


def as_held_out(drawn: dict[str, Any], run: RunContext) -> HeldOut:
    """Held-out scenes on the device, in the model's words."""
    words = run.scene_words
    batches = [PairBatch(**each).to(run.device) for each in drawn["batches"]]
    return HeldOut(
        batches=batches if words is None else [words.translate(batch) for batch in batches],
        references=drawn["references"],
        check=_fact_check(drawn["scenes"]),
    )


def check_even(pairs: int) -> None:
    """Scenes come as two rows, which no batch may tear apart."""
    if pairs % 2:
        raise ConfigError(f"scenes give a change and a distractor each: {pairs} pairs per batch are not even")


def _fact_check(scenes: list[dict[str, Any]]) -> Callable[[list[str]], list[bool]]:
    """Whether each caption is true of its pair and names only what changed; change and distractor rows in turn."""

    def verify(captions: list[str]) -> list[bool]:
        return [check(text, scenes[row // 2], distractor=row % 2 == 1).correct for row, text in enumerate(captions)]

    return verify
