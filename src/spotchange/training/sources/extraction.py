"""Makes feature folders: pictures of a data set or of generated scenes through a frozen network, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from spotchange.config.sources import DatasetSource, StreamSource
from spotchange.data.caches.features import FeatureFacts, FeatureRow, Task, write_features
from spotchange.data.caches.flatfile import FlatFile
from spotchange.data.caches.images import open_cache
from spotchange.data.caches.index import RowIndex
from spotchange.data.caches.reader import pair_up
from spotchange.data.metadata import numbered_classes
from spotchange.data.protocols import get_protocol
from spotchange.errors import ConfigError
from spotchange.language.descriptions import describe_picture, object_classes
from spotchange.language.writer import captions_text, write_captions
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.vision.resnet import GridNetwork, frozen_network
from spotchange.scene import ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, BEFORE, SHAPE, SceneBatch
from spotchange.scenes.export import object_boxes
from spotchange.scenes.pictures import draw_pictures
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import PLAIN_CHOICES, plainest, world_seed

if TYPE_CHECKING:
    from spotchange.training.start import Start

CAPTIONS_A_PAIR = 3
_SCENES_AT_ONCE, _PICTURES_AT_ONCE = {"cpu": 8, "cuda": 256}, {"cpu": 16, "cuda": 512}
_SMALLEST_CROP = 8  # pixels: an object that shows less is hardly seen
_CROP_MARGIN = 0.25

Part = tuple[np.ndarray, list[FeatureRow]]


@dataclass(frozen=True, kw_only=True)
class FrozenBackbone:
    """A frozen network with its preprocessing, on a device."""

    network: GridNetwork
    preprocessor: Preprocessor
    grid: tuple[int, int]
    device: str
    bf16: bool
    """Arithmetic; a GPU's training sees pictures so too, and features are kept in half precision anyway."""

    @classmethod
    def of(cls, start: Start, device: str, *, bf16: bool = False) -> FrozenBackbone:
        """Those of a model that a recipe starts with; `bf16` on a CPU too, which pays where it has instructions."""
        network = frozen_network(start.model)
        if network is None:
            raise ConfigError("features are made by a frozen resnet: set model.vision.freeze_backbone to true")
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return cls(
            network=network.to(device).eval(),
            preprocessor=start.preprocessor,
            grid=start.settings.vision.grid,
            device=device,
            bf16=bf16 or device.startswith("cuda"),
        )

    @torch.inference_mode()
    def see(self, pictures: Tensor) -> np.ndarray:
        """Bytes (pictures, 3, H, W) to float16 (pictures, cells, channels)."""
        kind = self.device.partition(":")[0]
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self.bf16):
            parts = [
                self.network.of_pictures(self.preprocessor(part.to(self.device))).half().cpu()
                for part in torch.split(pictures, _PICTURES_AT_ONCE[kind])
            ]
        return torch.cat(parts).numpy()

    def facts(self, task: Task, *, paired: bool) -> FeatureFacts:
        """What a folder made by this backbone says of itself."""
        return FeatureFacts(
            task=task,
            backbone=self.network.fingerprint(),
            image_size=self.preprocessor.image_size,
            grid=self.grid,
            channels=self.network.channels,
            paired=paired,
        )


def scene_features(
    out: Path,
    backbone: FrozenBackbone,
    source: StreamSource,
    *,
    task: Task,
    scenes: int,
    seed: int,
    advance: Callable[[int], None] = lambda done: None,
) -> FeatureFacts:
    """Features of generated scenes: pairs, described pictures, or objects cut out with their classes."""
    kinds: dict[Task, Callable[..., tuple[Tensor, list[FeatureRow]]]] = {
        "pairs": partial(_pair_rows, plain=source.sentences == "plain"),
        "single": _described_rows,
        "classes": _object_rows,
    }
    rows_of = kinds[task]
    world = World(source.scene_settings(), seed=world_seed(seed), device=backbone.device)

    def parts() -> Iterator[Part]:
        first = 0
        step = _SCENES_AT_ONCE[backbone.device.partition(":")[0]]
        for start in range(0, scenes, step):
            batch = world.scenes(np.arange(start, min(start + step, scenes)))
            height, width = backbone.preprocessor.image_size
            images, ids = draw_pictures(
                batch,
                source.scene_settings().look,
                seed=world.seed,
                width=width,
                height=height,
                quality=source.quality,
                device=backbone.device,
            )
            pictures, rows = rows_of(batch, images, ids, world.seed, first)
            first += len(pictures)
            yield backbone.see(pictures), rows
            advance(len(batch))

    return write_features(out, backbone.facts(task, paired=task == "pairs"), parts())


def dataset_features(
    out: Path, backbone: FrozenBackbone, source: DatasetSource, *, advance: Callable[[int], None] = lambda done: None
) -> FeatureFacts:
    """Features of a data set's split, for the task its settings name."""
    height, width = backbone.preprocessor.image_size
    folder = open_cache(source.path, source.split, height=height, width=width, cache_dir=source.cache)
    index, file = RowIndex(folder), FlatFile(folder / "pictures.bin")
    units = pair_up(index)
    rows = _dataset_rows(source, index, units.ravel(), backbone.grid)
    step = _PICTURES_AT_ONCE[backbone.device.partition(":")[0]]
    size = 3 * height * width

    def parts() -> Iterator[Part]:
        for first in range(0, len(file) // size, step):
            count = min(step, len(file) // size - first)
            pictures = torch.empty(count, 3, height, width, dtype=torch.uint8)
            file.read_into(first * size, pictures.numpy())
            yield backbone.see(pictures), rows if first == 0 else []
            advance(count)

    return write_features(out, backbone.facts(source.task, paired=units.shape[1] == 2), parts())


def _dataset_rows(
    source: DatasetSource, index: RowIndex, chosen: np.ndarray, grid: tuple[int, int]
) -> list[FeatureRow]:
    classes = numbered_classes(source.path, source.split) if source.task == "classes" else None
    protocol = get_protocol(source.protocol)
    columns = {name: index.column(name) for name in ("before", "after", "change_type", "scene")}
    touched = index.change_mask(chosen, grid) if index.has_masks else [None] * len(chosen)
    return [
        FeatureRow(
            before=int(columns["before"][row]),
            after=int(columns["after"][row]),
            captions=tuple(protocol.references(index.captions(int(row)))),
            change_type=int(columns["change_type"][row]),
            scene=int(columns["scene"][row]),
            class_id=-1 if classes is None else classes[int(row)],
            changed=None if cells is None else tuple(tuple(np.flatnonzero(side).tolist()) for side in cells),
        )
        for row, cells in zip(chosen.tolist(), touched, strict=True)
    ]


def _pair_rows(
    batch: SceneBatch, images: Tensor, ids: Tensor, seed: int, first: int, *, plain: bool
) -> tuple[Tensor, list[FeatureRow]]:
    """Three pictures a scene; its change pair and its distractor pair."""
    written = torch.as_tensor(write_captions(batch, seed=seed, per_pair=PLAIN_CHOICES if plain else CAPTIONS_A_PAIR))
    # One sentence a pair is the plainest; the other pairs' number of sentences is kept, and doubles are dropped below.
    chosen = plainest(written)[:, :, None].expand(-1, -1, CAPTIONS_A_PAIR, -1) if plain else written
    texts = captions_text(chosen)
    change = torch.as_tensor(batch.change).tolist()
    rows = []
    for scene in range(len(batch)):
        number, at = first + 3 * scene, 2 * CAPTIONS_A_PAIR * scene
        scene_id = int(batch.scene_id[scene])
        for kind, after, start in ((change[scene], number + 1, at), (0, number + 2, at + CAPTIONS_A_PAIR)):
            captions = tuple(dict.fromkeys(texts[start : start + CAPTIONS_A_PAIR]))
            rows.append(
                FeatureRow(before=number, after=after, captions=captions, change_type=int(kind), scene=scene_id)
            )
    return images.flatten(0, 1), rows


def _described_rows(
    batch: SceneBatch, images: Tensor, ids: Tensor, seed: int, first: int
) -> tuple[Tensor, list[FeatureRow]]:
    """The picture before of every scene, with sentences about what stands in it."""
    batch = _on_host(batch)
    rows = []
    for scene in range(len(batch)):
        objects = batch.attributes[scene, 0]
        things = tuple(
            {name: values[int(code)] for name, values, code in zip(ATTRIBUTE_NAMES, ATTRIBUTE_VALUES, one, strict=True)}
            for one in objects[objects[:, SHAPE] >= 0]
        )
        captions = tuple(describe_picture(batch, scene, BEFORE, seed=seed))
        number = first + scene
        rows.append(FeatureRow(before=number, after=number, captions=captions, things=things))
    return images[:, BEFORE], rows


def _object_rows(
    batch: SceneBatch, images: Tensor, ids: Tensor, seed: int, first: int
) -> tuple[Tensor, list[FeatureRow]]:
    """Every object of the picture before, cut out and enlarged, with its class."""
    batch = _on_host(batch)
    height, width = images.shape[-2:]
    classes = object_classes(batch.attributes[:, 0])
    crops: list[Tensor] = []
    rows = []
    for scene in range(len(batch)):
        for slot, (x, y, wide, high) in enumerate(object_boxes(ids[scene, BEFORE].cpu().numpy()[None])[0].tolist()):
            if min(wide, high) < _SMALLEST_CROP or classes[scene, slot] < 0:
                continue
            more_x, more_y = round(_CROP_MARGIN * wide), round(_CROP_MARGIN * high)
            top, left = max(0, y - more_y), max(0, x - more_x)
            crop = images[scene, BEFORE, :, top : y + high + more_y, left : x + wide + more_x]
            larger: Any = torch.nn.functional.interpolate(
                crop[None].float(), size=(height, width), mode="bilinear", antialias=True
            )
            number = first + len(crops)
            crops.append(larger.round().clamp(0, 255).to(torch.uint8)[0])
            rows.append(FeatureRow(before=number, after=number, captions=(), class_id=int(classes[scene, slot])))
    return torch.stack(crops), rows


def _on_host(batch: SceneBatch) -> SceneBatch:
    return SceneBatch(**{name: np.asarray(torch.as_tensor(value).cpu()) for name, value in vars(batch).items()})
