"""From data settings to the batches a run trains and validates on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spotchange.config.objectives import PclPretrainSettings
from spotchange.config.sources import DatasetSource, FeatureSource, MixedSource, StreamSource
from spotchange.config.training import Recipe
from spotchange.data.batches import PairBatch
from spotchange.data.disk import DiskSource
from spotchange.data.feature_cache import FACTS
from spotchange.data.rows import list_splits
from spotchange.errors import ConfigError
from spotchange.files import only_one_process
from spotchange.models.grid import frozen_network
from spotchange.scenes.arrays import SceneBatch
from spotchange.scenes.changes import scene_json
from spotchange.scenes.checker import check
from spotchange.scenes.phrases import MAX_WORDS
from spotchange.scenes.stream import SceneStream, as_dict, world_seed
from spotchange.scenes.vocabulary import TOKENS
from spotchange.scenes.world import World
from spotchange.scenes.writer import captions_text, write_captions
from spotchange.training.augment import augment
from spotchange.training.feature_batches import FeatureBatches, FeatureStore
from spotchange.training.features import Eyes, scene_features
from spotchange.training.kept_scenes import KEPT_SEED, RENDERED_AT_ONCE, KeptBatches, kept, render_scenes
from spotchange.training.pcl_feeding import task_source
from spotchange.training.sources import BatchSource, ChangedBatches, MixedBatches
from spotchange.training.start import Start
from spotchange.training.symmetries import PlaceWords, mirror_and_turn
from spotchange.training.validation import HeldOut
from spotchange.training.words import WordTable

REFERENCES = 5  # sentences about each held-out pair of the stream


@dataclass(frozen=True, kw_only=True)
class Feeding:
    """What every source must know of the run."""

    recipe: Recipe
    start: Start
    device: torch.device
    rank: int = 0
    processes: int = 1

    @property
    def grid(self) -> tuple[int, int]:
        return self.start.settings.vision.grid

    @property
    def device_name(self) -> str:
        """The device as scenes call it."""
        return "cpu" if self.device.type == "cpu" else str(self.device)  # a group's CPUs are numbered, scenes' are not

    def training(self) -> BatchSource:
        """Endless training batches for this process, augmented if the recipe says so."""
        stage = self.recipe.stage
        pairs, odd = divmod(stage.pairs_per_step, stage.accumulate * self.processes)
        if odd:
            raise ConfigError(
                f"stage.pairs_per_step {stage.pairs_per_step} does not split into {stage.accumulate} parts "
                f"for each of {self.processes} processes"
            )
        if isinstance(stage.objective, PclPretrainSettings):
            tasks: BatchSource = task_source(self, self.recipe.data, pairs)
            return tasks
        return self.augmented(self.source(self.recipe.data, pairs))

    def augmented(self, source: BatchSource) -> BatchSource:
        """The same batches with the recipe's augmentation."""
        if not self.recipe.augment.active:
            return source
        if isinstance(source, FeatureBatches) and self.recipe.augment.repaints:
            raise ConfigError("augment: features of pictures can be mirrored and turned (symmetries), nothing else")
        return ChangedBatches(source, self._augmentation())

    def held_out(self) -> HeldOut | None:
        """The pairs that validation looks at; None for a data set without a validation split."""
        wanted = self.recipe.validation.data or self.recipe.data
        if isinstance(wanted, MixedSource):
            wanted = wanted.sources[0]
        if isinstance(wanted, StreamSource):
            return self._held_out_scenes(wanted)
        if isinstance(wanted, FeatureSource):
            return None if self.recipe.validation.data is None else self._held_out_features(wanted)
        if self.recipe.validation.data is None:
            if "val" not in list_splits(wanted.path):
                return None
            wanted = wanted.model_copy(update={"split": "val"})
        return self._held_out_rows(wanted)

    def source(self, settings: StreamSource | DatasetSource | FeatureSource | MixedSource, pairs: int) -> BatchSource:
        """Batches of `pairs` rows from a source, as it is."""
        if isinstance(settings, MixedSource):
            sources = [self.source(each, pairs) for each in settings.sources]
            return MixedBatches(sources, settings.weights, seed=self.recipe.seed)
        if isinstance(settings, StreamSource):
            return self._scenes(settings, pairs)
        if isinstance(settings, FeatureSource):
            return self._features(settings, pairs)
        return ChangedBatches(self._rows(settings, pairs), self._known_types)

    def _scenes(self, settings: StreamSource, pairs: int) -> BatchSource:
        """Generated scenes, drawn as needed or rendered once and kept."""
        translate = self._translation()
        if settings.kept is None:
            return SceneBatches(self._stream(settings, pairs), translate)
        at_once = min(settings.kept_scenes, RENDERED_AT_ONCE[self.device.type])
        scenes = kept(
            settings.kept,
            "train",
            settings,
            self._kept_facts(settings.kept_scenes),
            lambda: render_scenes(self._stream(settings, 2 * at_once, seed=KEPT_SEED), settings.kept_scenes),
        )
        return KeptBatches(
            scenes,
            pairs=pairs,
            seed=self.recipe.seed,
            device=self.device,
            rank=self.rank,
            world_size=self.processes,
            translate=translate,
        )

    def _kept_facts(self, scenes: int) -> dict[str, Any]:
        """What kept scenes depend on beside their settings."""
        return {"scenes": scenes, "size": self.start.settings.vision.image_size, "grid": self.grid}

    def _stream(self, settings: StreamSource, pairs: int, seed: int | None = None) -> SceneStream:
        if pairs % 2:
            raise ConfigError(f"scenes give a change and a distractor each: {pairs} pairs a batch are not even")
        height, width = self.start.settings.vision.image_size
        return SceneStream(
            settings.scene_settings(),
            device=self.device_name,
            seed=self.recipe.seed if seed is None else seed,
            scenes_per_batch=pairs // 2,
            rank=self.rank if seed is None else 0,
            world_size=self.processes if seed is None else 1,
            width=width,
            height=height,
            grid=self.grid,
            quality=settings.quality,
            plain_sentences=settings.sentences == "plain",
        )

    def _held_out_scenes(self, settings: StreamSource) -> HeldOut:
        """Scenes of the stream's validation split, the same ones in every process."""
        if settings.kept is None:
            found = self._draw_held_out(settings, self.recipe.seed)
        else:
            pairs, at_once = self.recipe.validation.pairs, self.recipe.validation.pairs_per_batch
            facts = self._kept_facts(pairs // 2) | {"pairs_per_batch": at_once}
            found = kept(settings.kept, "val", settings, facts, lambda: self._draw_held_out(settings, KEPT_SEED))
        translate = self._translation()
        batches = [PairBatch(**each).to(self.device) for each in found["batches"]]
        return HeldOut(
            batches=batches if translate is None else [translate(batch) for batch in batches],
            references=found["references"],
            check=_fact_check(found["scenes"]),
        )

    def _draw_held_out(self, settings: StreamSource, seed: int) -> dict[str, Any]:
        """Pairs, sentences about each, and the scenes they show."""
        validation = self.recipe.validation
        per_batch = min(validation.pairs_per_batch, validation.pairs) // 2
        stream = self._stream(settings, 2 * per_batch)
        world = World(stream.settings, seed=world_seed(seed, "val"), device=self.device_name)
        batches, references, scenes = [], [], []
        for first in range(0, validation.pairs // 2, per_batch):
            drawn = world.scenes(np.arange(first, min(first + per_batch, validation.pairs // 2)))
            batches.append(as_dict(stream.render_pairs(drawn)))
            texts = captions_text(write_captions(drawn, seed=world.seed, per_pair=REFERENCES))
            references += [texts[i : i + REFERENCES] for i in range(0, len(texts), REFERENCES)]
            on_host = _as_numpy(drawn)
            scenes += [scene_json(on_host, i, "") for i in range(len(on_host))]
        return {"batches": batches, "references": references, "scenes": scenes}

    def _rows(self, settings: DatasetSource, pairs: int, *, shuffle: bool = True) -> DiskSource:
        return DiskSource(
            settings.path,
            settings.split,
            tokenizer=self.start.tokenizer,
            image_size=self.start.settings.vision.image_size,
            batch=pairs,
            seed=self.recipe.seed,
            rank=self.rank if shuffle else 0,
            world_size=self.processes if shuffle else 1,
            shuffle=shuffle,
            workers=settings.workers,
            cache_dir=settings.cache,
            max_words=self.max_words,
            grid=self.grid,
            protocol=settings.protocol,
            device=self.device,
        )

    def _held_out_rows(self, settings: DatasetSource) -> HeldOut:
        """The first pairs of the validation split."""
        validation = self.recipe.validation
        source = self._rows(settings, validation.pairs_per_batch, shuffle=False)
        batches, references = [], []
        for rows, batch in source.one_pass(validation.pairs):
            batches.append(self._known_types(batch))
            references += [source.references(int(row)) for row in rows]
        source.close()
        return HeldOut(batches=batches, references=references)

    def _features(self, settings: FeatureSource, pairs: int) -> FeatureBatches:
        return FeatureBatches(
            self.feature_store(settings),
            tokenizer=self.start.tokenizer,
            max_words=self.max_words,
            pad=self.start.settings.vocabulary.pad,
            batch=pairs,
            seed=self.recipe.seed,
            rank=self.rank,
            world_size=self.processes,
        )

    def _held_out_features(self, settings: FeatureSource) -> HeldOut:
        """The first pairs of a feature folder."""
        validation = self.recipe.validation
        source = self._features(settings, validation.pairs_per_batch)
        batches, references = [], []
        for rows, batch in source.one_pass(validation.pairs, validation.pairs_per_batch):
            batches.append(self._known_types(batch))
            references += [list(source.rows[row].captions) for row in rows]
        return HeldOut(batches=batches, references=references)

    def feature_store(self, settings: FeatureSource) -> FeatureStore:
        """The features on disk, if they are of this model's own frozen network."""
        network = frozen_network(self.start.model)
        if network is None:
            raise ConfigError("features from disk need a frozen resnet (model.vision.freeze_backbone)")
        if settings.scenes is not None:
            self._make_features(settings, settings.scenes)
        return FeatureStore(settings.path, backbone=network.fingerprint(), device=self.device)

    def _make_features(self, settings: FeatureSource, scenes: int) -> None:
        folder = Path(settings.path)
        if (folder / FACTS).exists():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_one_process(folder.with_name(f".{folder.name}.lock")):
            if not (folder / FACTS).exists():  # another process may have made them while this one waited
                eyes = Eyes.of(self.start, self.device_name)
                scene_features(folder, eyes, settings.of, task=settings.task, scenes=scenes, seed=settings.seed)

    @property
    def max_words(self) -> int:
        """Longest caption in tokens."""
        return min(self.recipe.stage.max_words, self.start.settings.text.context)

    def _known_types(self, batch: PairBatch) -> PairBatch:
        """Change types that the model has no name for count as unknown, unless it only tells change from none."""
        kinds = len(self.start.settings.heads.change_types)
        if kinds == 2:
            return replace(batch, change_type=batch.change_type.clamp(max=1))
        known = batch.change_type < kinds
        return replace(batch, change_type=torch.where(known, batch.change_type, -1))

    def _translation(self) -> Callable[[PairBatch], PairBatch] | None:
        words = self.scene_words()
        return None if words is None else words.translate

    def scene_words(self) -> WordTable | None:
        """Scene words into the model's; None where they are the same and all fit."""
        vocabulary = self.start.settings.vocabulary
        same = vocabulary.size == len(TOKENS) and self.start.tokenizer.id_to_token(len(TOKENS) - 1) == TOKENS[-1]
        if same and self.max_words >= MAX_WORDS:
            return None
        return WordTable(self.start.tokenizer, vocabulary, context=self.max_words)

    def _augmentation(self) -> Callable[[PairBatch], PairBatch]:
        settings, grid = self.recipe.augment, self.grid
        words = PlaceWords.of(self.start.tokenizer).to(self.device) if settings.symmetries else None

        def apply(batch: PairBatch) -> PairBatch:
            batch = batch if words is None else mirror_and_turn(batch, words, grid=grid)
            return augment(batch, settings, grid=grid) if settings.repaints else batch

        return torch.compile(apply, dynamic=False) if self.recipe.stage.compile else apply


class SceneBatches:
    """The generated stream as a source."""

    paired = True
    shares_before = True

    def __init__(self, stream: SceneStream, translate: Callable[[PairBatch], PairBatch] | None) -> None:
        self.stream, self.translate = stream, translate

    def next_batch(self) -> PairBatch:
        """Fresh scenes: each a change row and a distractor row."""
        batch = PairBatch(**as_dict(next(self.stream)))
        return batch if self.translate is None else self.translate(batch)

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands."""
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.stream.load_state_dict(state)


def _fact_check(scenes: list[dict[str, Any]]) -> Callable[[list[str]], list[bool]]:
    """Whether each caption is true of its pair and names only what changed; change and distractor rows in turn."""

    def judge(captions: list[str]) -> list[bool]:
        return [check(text, scenes[row // 2], distractor=row % 2 == 1).correct for row, text in enumerate(captions)]

    return judge


def _as_numpy(scenes: SceneBatch) -> SceneBatch:
    return SceneBatch(
        **{field.name: np.asarray(torch.as_tensor(getattr(scenes, field.name)).cpu()) for field in fields(scenes)}
    )
