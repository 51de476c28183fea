"""The pairs that validation looks at: scenes kept apart from training's, rows of a data set, or features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from spotchange.config.objectives import PictureTextSettings
from spotchange.config.sources import DatasetSource, EverydaySource, FeatureSource, MixedSource, StreamSource
from spotchange.data.metadata import list_splits
from spotchange.errors import ConfigError
from spotchange.everyday.wording import frame_text
from spotchange.language.checker import check
from spotchange.language.writer import captions_text, write_captions
from spotchange.pairs import PairBatch
from spotchange.scene import SceneBatch
from spotchange.scenes.changes import scene_json
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import as_dict, world_seed
from spotchange.training.sources.build import Feeding
from spotchange.training.sources.kept_scenes import KEPT_SEED, kept
from spotchange.training.sources.pictures import held_out_pictures
from spotchange.training.validation import HeldOut

REFERENCES = 5  # sentences about each held-out pair of the stream


def held_out(feeding: Feeding) -> HeldOut | None:
    """The pairs that validation looks at; None for a data set without a validation split."""
    return _held_out(feeding, "val")


def final_pairs(feeding: Feeding) -> HeldOut | None:
    """The test pairs that the best checkpoint is judged on at the end; None where the recipe wants none."""
    validation = feeding.recipe.validation
    if validation.test_pairs is None:
        return None
    wanted = validation.model_copy(update={"pairs": validation.test_pairs})
    recipe = feeding.recipe.model_copy(update={"validation": wanted})
    found = _held_out(replace(feeding, recipe=recipe), "test")
    if found is None:
        raise ConfigError("validation.test_pairs: the data have no test split that could be judged on")
    return found


def _held_out(feeding: Feeding, split: str) -> HeldOut | None:
    if isinstance(feeding.recipe.stage.objective, PictureTextSettings):
        return held_out_pictures(feeding) if split == "val" else None
    wanted = feeding.recipe.validation.data or feeding.recipe.data
    if isinstance(wanted, MixedSource):
        wanted = wanted.sources[0]
    if isinstance(wanted, StreamSource):
        return _scenes(feeding, wanted, split)
    if isinstance(wanted, EverydaySource):
        return _everyday(feeding, wanted, split)
    if isinstance(wanted, FeatureSource):
        return None if feeding.recipe.validation.data is None or split != "val" else _features(feeding, wanted)
    if feeding.recipe.validation.data is None or split != "val":
        if split not in list_splits(wanted.path):
            return None
        wanted = wanted.model_copy(update={"split": split})
    return _rows(feeding, wanted)


def _scenes(feeding: Feeding, settings: StreamSource, split: str) -> HeldOut:
    """Scenes of a split that the stream keeps apart, the same ones in every process."""
    if settings.kept is None:
        found = _draw(feeding, settings, feeding.recipe.seed, split)
    else:
        pairs, at_once = feeding.recipe.validation.pairs, feeding.recipe.validation.pairs_per_batch
        facts = feeding.kept_facts(pairs // 2) | {"pairs_per_batch": at_once}
        found = kept(settings.kept, split, settings, facts, lambda: _draw(feeding, settings, KEPT_SEED, split))
    translate = feeding.translation()
    batches = [PairBatch(**each).to(feeding.device) for each in found["batches"]]
    return HeldOut(
        batches=batches if translate is None else [translate(batch) for batch in batches],
        references=found["references"],
        check=_fact_check(found["scenes"]),
    )


def _draw(feeding: Feeding, settings: StreamSource, seed: int, split: str) -> dict[str, Any]:
    """Pairs, sentences about each, and the scenes they show."""
    validation = feeding.recipe.validation
    per_batch = min(validation.pairs_per_batch, validation.pairs) // 2
    stream = feeding.stream(settings, 2 * per_batch)
    world = World(stream.settings, seed=world_seed(seed, split), device=feeding.device_name)
    batches, references, scenes = [], [], []
    for first in range(0, validation.pairs // 2, per_batch):
        drawn = world.scenes(np.arange(first, min(first + per_batch, validation.pairs // 2)))
        batches.append(as_dict(stream.render_pairs(drawn)))
        texts = captions_text(write_captions(drawn, seed=world.seed, per_pair=REFERENCES))
        references += [texts[i : i + REFERENCES] for i in range(0, len(texts), REFERENCES)]
        on_host = _as_numpy(drawn)
        scenes += [scene_json(on_host, i, "") for i in range(len(on_host))]
    return {"batches": batches, "references": references, "scenes": scenes}


def _everyday(feeding: Feeding, settings: EverydaySource, split: str) -> HeldOut:
    """Pairs of a split; their frames are the references."""
    validation = feeding.recipe.validation
    stream = feeding.everyday(settings, min(validation.pairs_per_batch, validation.pairs), split=split)
    batches: list[PairBatch] = [stream.next_batch() for _ in range(max(1, validation.pairs // stream.pairs))]
    references = [[frame_text(ids)] for batch in batches for ids in batch.caption_ids.tolist()]
    return HeldOut(batches=batches, references=references)


def _rows(feeding: Feeding, settings: DatasetSource) -> HeldOut:
    """The first pairs of the validation split."""
    validation = feeding.recipe.validation
    source = feeding.rows(settings, validation.pairs_per_batch, shuffle=False)
    batches, references = [], []
    for rows, batch in source.one_pass(validation.pairs):
        batches.append(feeding.known_types(batch))
        references += [source.references(int(row)) for row in rows]
    source.close()
    return HeldOut(batches=batches, references=references)


def _features(feeding: Feeding, settings: FeatureSource) -> HeldOut:
    """The first pairs of a feature folder."""
    validation = feeding.recipe.validation
    source = feeding.features(settings, validation.pairs_per_batch)
    batches, references = [], []
    for rows, batch in source.one_pass(validation.pairs, validation.pairs_per_batch):
        batches.append(feeding.known_types(batch))
        references += [list(source.rows[row].captions) for row in rows]
    return HeldOut(batches=batches, references=references)


def _fact_check(scenes: list[dict[str, Any]]) -> Callable[[list[str]], list[bool]]:
    """Whether each caption is true of its pair and names only what changed; change and distractor rows in turn."""

    def judge(captions: list[str]) -> list[bool]:
        return [check(text, scenes[row // 2], distractor=row % 2 == 1).correct for row, text in enumerate(captions)]

    return judge


def _as_numpy(scenes: SceneBatch) -> SceneBatch:
    return SceneBatch(
        **{field.name: np.asarray(torch.as_tensor(getattr(scenes, field.name)).cpu()) for field in fields(scenes)}
    )
