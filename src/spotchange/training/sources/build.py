"""From a recipe's data settings to sources; the only place that looks at these settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from spotchange.config.objectives import ImageTextSettings, PclPretrainSettings
from spotchange.config.sources import (
    AugmentSettings,
    DatasetSource,
    EverydaySource,
    FeatureSource,
    MixedSource,
    StreamSource,
)
from spotchange.config.training import Recipe
from spotchange.config.vlm import ChatModelSettings
from spotchange.data.caches.features import FACTS, read_facts
from spotchange.errors import ConfigError
from spotchange.everyday.kinds import SHARES
from spotchange.files import fetched_folder
from spotchange.pairs import PairBatch
from spotchange.storage import is_address
from spotchange.training.augmentation.augment import augment
from spotchange.training.augmentation.symmetries import PlaceWords, mirror_and_turn
from spotchange.training.sources.classes import ImageClasses, classes_of_features, classes_of_folder
from spotchange.training.sources.combined import Augmented, Mixture
from spotchange.training.sources.extraction import FrozenBackbone, scene_features
from spotchange.training.sources.features import FeatureFolder
from spotchange.training.sources.folder import ImageFolder
from spotchange.training.sources.generated.kept import KeptScenes
from spotchange.training.sources.generated.live import EverydayPairs, LiveScenes
from spotchange.training.sources.generated.single_images import ImageTexts
from spotchange.training.sources.interface import Batches, HeldOut, NegativePlan, RunContext, Source
from spotchange.training.sources.tasks import PretrainingTasks

if TYPE_CHECKING:
    from spotchange.training.sources.chat import ChatSource
    from spotchange.training.start import Start

PlainSettings = StreamSource | DatasetSource | FeatureSource | EverydaySource
AnySettings = PlainSettings | MixedSource


def run_context(recipe: Recipe, start: Start, *, device: torch.device, rank: int = 0, processes: int = 1) -> RunContext:
    """What sources must know of a run."""
    longest = min(recipe.stage.max_words, start.settings.text.context)
    return RunContext(start=start, device=device, seed=recipe.seed, max_words=longest, rank=rank, processes=processes)


def training_batches(recipe: Recipe, run: RunContext) -> Batches:
    """Endless training batches for this process, augmented if the recipe says so."""
    return training_source(recipe).batches(run, pairs_per_batch(recipe, run.processes))


def pairs_per_batch(recipe: Recipe, processes: int) -> int:
    """Pairs that one process computes at a time."""
    stage = recipe.stage
    pairs, odd = divmod(stage.pairs_per_step, stage.accumulate * processes)
    if odd:
        raise ConfigError(
            f"stage.pairs_per_step {stage.pairs_per_step} does not split into {stage.accumulate} parts "
            f"for each of {processes} processes"
        )
    return pairs


def held_out_pairs(recipe: Recipe, run: RunContext) -> HeldOut | None:
    """The pairs that validation looks at; None for data without a validation split."""
    wanted = recipe.validation
    return _held_out_source(recipe).held_out(run, pairs=wanted.pairs, at_once=wanted.pairs_per_batch)


def final_pairs(recipe: Recipe, run: RunContext) -> HeldOut | None:
    """The test pairs that the best checkpoint is scored on at the end; None where the recipe wants none."""
    wanted = recipe.validation
    if wanted.test_pairs is None:
        return None
    source = _held_out_source(recipe)
    found = source.held_out(run, pairs=wanted.test_pairs, at_once=wanted.pairs_per_batch, split="test")
    if found is None:
        raise ConfigError("validation.test_pairs: the data have no test split that could be scored on")
    return found


def _held_out_source(recipe: Recipe) -> Source:
    data = recipe.validation.data or recipe.data
    if isinstance(recipe.stage.objective, ImageTextSettings):
        return _image_texts(data)
    return pairs_of(data, for_validation=recipe.validation.data is not None)


def training_source(recipe: Recipe) -> Source:
    """The recipe's data as its objective reads them."""
    objective = recipe.stage.objective

    def leaf(data: PlainSettings) -> Source:
        if isinstance(objective, PclPretrainSettings):
            return _tasks(data, recipe, objective)
        if isinstance(objective, ImageTextSettings):
            return _augmented(_image_texts(data, alike=objective.alike, showings=objective.showings), recipe)
        return _augmented(_pairs(data), recipe)

    return _mixed(recipe.data, leaf)


def pairs_of(data: AnySettings, *, for_validation: bool = False) -> Source:
    """The data as they are; `for_validation` says that they were named for it, so that their own pairs are meant."""
    return _mixed(data, partial(_pairs, for_validation=for_validation))


def chat_source(
    recipe: Recipe, data: AnySettings, *, split: str | None, device: torch.device, rank: int, processes: int
) -> ChatSource:
    """The recipe's data as conversations; `split` names the split that validation reads, None: the usual one."""
    from spotchange.training.sources.chat import FolderChats, SceneChats, modelless_start

    assert isinstance(recipe.model, ChatModelSettings)
    if isinstance(data, StreamSource):
        start = modelless_start(recipe.model)
        return SceneChats(pairs_of(data), run_context(recipe, start, device=device, rank=rank, processes=processes))
    if isinstance(data, DatasetSource):
        return FolderChats(data, held_out_split=split or "val", seed=recipe.seed, rank=rank, processes=processes)
    raise ConfigError(f"a vision-language model reads generated scenes or a data set, not data.kind {data.kind}")


def scenes_of(data: AnySettings) -> StreamSource:
    """The generated scenes that the data are, else those of the benchmark."""
    return data if isinstance(data, StreamSource) else StreamSource(kind="stream")


def _mixed(data: AnySettings, leaf: Callable[[PlainSettings], Source]) -> Source:
    if isinstance(data, MixedSource):
        return Mixture(sources=[leaf(each) for each in data.sources], weights=data.weights)
    return leaf(data)


def _pairs(data: PlainSettings, *, for_validation: bool = False) -> Source:
    if isinstance(data, StreamSource):
        return _scenes(data)
    if isinstance(data, FeatureSource):
        return _features(data, for_validation=for_validation)
    if isinstance(data, EverydaySource):
        return EverydayPairs(
            library=Path(data.library),
            split=data.split,
            shares=SHARES | data.shares,
            most_objects=data.most_objects,
            most_backgrounds=data.most_backgrounds,
        )
    return ImageFolder(
        path=data.path,
        split=data.split,
        held_out_split=data.split if for_validation else "val",
        protocol=data.protocol,
        cache=data.cache,
        unit=data.unit,
        workers=data.workers,
    )


def _scenes(data: StreamSource) -> LiveScenes:
    rules, plain = data.scene_settings(), data.sentences == "plain"
    if data.kept is None:
        return LiveScenes(rules=rules, quality=data.quality, plain=plain)
    return KeptScenes(
        rules=rules,
        quality=data.quality,
        plain=plain,
        folder=Path(data.kept),
        scenes=data.kept_scenes,
        made_of=data.model_dump(mode="json", exclude={"kept", "kept_scenes"}),
    )


def _features(data: FeatureSource, *, for_validation: bool = False) -> FeatureFolder:
    make = None if data.scenes is None else partial(_make_features, data, data.scenes)
    path = fetched_folder(data.path) if is_address(data.path) else Path(data.path)
    return FeatureFolder(path=path, unit=data.unit, holds_out=for_validation, make=make)


def _make_features(data: FeatureSource, scenes: int, folder: Path, run: RunContext) -> None:
    backbone = FrozenBackbone.of(run.start, run.device_name)
    scene_features(folder, backbone, data.of, task=data.task, scenes=scenes, seed=data.seed)


def _image_texts(data: AnySettings, *, alike: int = 1, showings: int = 1) -> ImageTexts:
    if not isinstance(data, StreamSource):
        raise ConfigError("image-text reads generated scenes: set data.kind to stream, and leave validation.data out")
    return ImageTexts(rules=data.scene_settings(), quality=data.quality, alike=alike, showings=showings)


def _augmented(source: Source, recipe: Recipe) -> Source:
    settings = recipe.augment
    if not settings.active:
        return source
    if isinstance(source, FeatureFolder) and settings.repaints:
        raise ConfigError("augment: features of images can be mirrored and turned (symmetries), nothing else")
    augmentation = partial(_augmentation, settings, bool(recipe.stage.compile))
    return Augmented(source=source, augmentation=augmentation, mirrors=settings.symmetries)


def _augmentation(settings: AugmentSettings, compiled: bool, run: RunContext) -> Callable[[PairBatch], PairBatch]:
    grid = run.grid
    words = PlaceWords.of(run.start.tokenizer).to(run.device) if settings.symmetries else None

    def apply(batch: PairBatch) -> PairBatch:
        batch = batch if words is None else mirror_and_turn(batch, words, grid=grid)
        return augment(batch, settings, grid=grid) if settings.repaints else batch

    return torch.compile(apply, dynamic=False) if compiled else apply


def _tasks(data: PlainSettings, recipe: Recipe, objective: PclPretrainSettings) -> Source:
    """IDC-PCL's tasks on the captions of the data, or on their classes."""
    task = _task(data)
    if task == "classes" and isinstance(data, FeatureSource):
        return ImageClasses(open=partial(classes_of_features, _features(data)))
    if task == "classes" and isinstance(data, DatasetSource):
        opened = partial(classes_of_folder, data.path, data.split, data.cache)
        return ImageClasses(open=opened)
    return PretrainingTasks(
        source=_augmented(_pairs(data), recipe),
        weights=objective.tasks.model_dump(),
        plan=NegativePlan(counts=objective.negatives, denials=objective.denials),
        single=task == "single",
    )


def _task(data: PlainSettings) -> str:
    if isinstance(data, DatasetSource):
        return data.task
    if not isinstance(data, FeatureSource):
        return "pairs"
    made = data.scenes is None or (Path(data.path) / FACTS).exists()
    return read_facts(data.path).task if made else data.task
