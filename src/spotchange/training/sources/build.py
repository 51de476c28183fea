"""From data settings to the batches a run trains on; `held_out` makes those it is judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from spotchange.config.objectives import PclPretrainSettings, PictureTextSettings
from spotchange.config.sources import DatasetSource, EverydaySource, FeatureSource, MixedSource, StreamSource
from spotchange.config.training import Recipe
from spotchange.data.caches.features import FACTS
from spotchange.errors import ConfigError
from spotchange.everyday.kinds import SHARES
from spotchange.everyday.library import read_library
from spotchange.everyday.stream import EverydayStream
from spotchange.language.phrases import MAX_WORDS
from spotchange.language.vocabulary import TOKENS
from spotchange.locks import only_one_process
from spotchange.models.vision.resnet import frozen_network
from spotchange.pairs import PairBatch
from spotchange.scenes.stream import SceneStream, as_dict
from spotchange.training.sources.augment import augment
from spotchange.training.sources.base import BatchSource, ChangedBatches, MixedBatches
from spotchange.training.sources.extraction import Eyes, scene_features
from spotchange.training.sources.features import FeatureBatches, FeatureStore
from spotchange.training.sources.folder import DiskSource
from spotchange.training.sources.kept_scenes import KEPT_SEED, RENDERED_AT_ONCE, KeptBatches, kept, render_scenes
from spotchange.training.sources.pcl import task_source
from spotchange.training.sources.pictures import picture_source
from spotchange.training.sources.retokenise import WordTable
from spotchange.training.sources.symmetries import PlaceWords, mirror_and_turn
from spotchange.training.start import Start


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
        if isinstance(stage.objective, PictureTextSettings):
            return self.augmented(picture_source(self, pairs))
        return self.augmented(self.source(self.recipe.data, pairs))

    def augmented(self, source: BatchSource) -> BatchSource:
        """The same batches with the recipe's augmentation."""
        if not self.recipe.augment.active:
            return source
        if isinstance(source, FeatureBatches) and self.recipe.augment.repaints:
            raise ConfigError("augment: features of pictures can be mirrored and turned (symmetries), nothing else")
        return ChangedBatches(source, self._augmentation())

    def source(
        self, settings: StreamSource | DatasetSource | FeatureSource | EverydaySource | MixedSource, pairs: int
    ) -> BatchSource:
        """Batches of `pairs` rows from a source, as it is."""
        if isinstance(settings, MixedSource):
            sources = [self.source(each, pairs) for each in settings.sources]
            return MixedBatches(sources, settings.weights, seed=self.recipe.seed)
        if isinstance(settings, StreamSource):
            return self._scenes(settings, pairs)
        if isinstance(settings, FeatureSource):
            return self.features(settings, pairs)
        if isinstance(settings, EverydaySource):
            return self.everyday(settings, pairs)
        return ChangedBatches(self.rows(settings, pairs), self.known_types)

    def _scenes(self, settings: StreamSource, pairs: int) -> BatchSource:
        """Generated scenes, drawn as needed or rendered once and kept."""
        translate = self.translation()
        if settings.kept is None:
            return SceneBatches(self.stream(settings, pairs), translate)
        at_once = min(settings.kept_scenes, RENDERED_AT_ONCE[self.device.type])
        scenes = kept(
            settings.kept,
            "train",
            settings,
            self.kept_facts(settings.kept_scenes),
            lambda: render_scenes(self.stream(settings, 2 * at_once, seed=KEPT_SEED), settings.kept_scenes),
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

    def kept_facts(self, scenes: int) -> dict[str, Any]:
        """What kept scenes depend on beside their settings."""
        return {"scenes": scenes, "size": self.start.settings.vision.image_size, "grid": self.grid}

    def stream(self, settings: StreamSource, pairs: int, seed: int | None = None) -> SceneStream:
        """The generated stream of this process; with a seed of its own, one that all processes share."""
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

    def everyday(self, settings: EverydaySource, pairs: int, *, split: str = "train") -> EverydayStream:
        """Everyday pairs of this process; all processes share those of other splits."""
        library = read_library(
            Path(settings.library),
            split=settings.split,
            device=self.device,
            most_objects=settings.most_objects,
            most_backgrounds=settings.most_backgrounds,
        )
        return EverydayStream(
            library,
            pairs=pairs,
            side=self.start.settings.vision.image_size[0],
            grid=self.grid,
            seed=self.recipe.seed,
            split=split,
            rank=self.rank if split == "train" else 0,
            processes=self.processes if split == "train" else 1,
            shares=SHARES | settings.shares,
        )

    def rows(self, settings: DatasetSource, pairs: int, *, shuffle: bool = True) -> DiskSource:
        """Rows of a data set on disk, in another order every epoch or as they stand."""
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
            unit=settings.unit if shuffle else "pairs",
            device=self.device,
        )

    def features(self, settings: FeatureSource, pairs: int) -> FeatureBatches:
        """Rows of a feature folder."""
        return FeatureBatches(
            self.feature_store(settings),
            tokenizer=self.start.tokenizer,
            max_words=self.max_words,
            pad=self.start.settings.vocabulary.pad,
            batch=pairs,
            unit=settings.unit,
            seed=self.recipe.seed,
            rank=self.rank,
            world_size=self.processes,
        )

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

    def known_types(self, batch: PairBatch) -> PairBatch:
        """Change types that the model has no name for count as unknown, unless it only tells change from none."""
        kinds = len(self.start.settings.heads.change_types)
        if kinds == 2:
            return replace(batch, change_type=batch.change_type.clamp(max=1))
        known = batch.change_type < kinds
        return replace(batch, change_type=torch.where(known, batch.change_type, -1))

    def translation(self) -> Callable[[PairBatch], PairBatch] | None:
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
