"""Makes feature folders: images of a data set or of generated scenes through a frozen network, once."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from spotchange import __version__
from spotchange.cluster import ClusterOptions, Work, in_order, pieces, run_on_ray
from spotchange.config.sources import DatasetSource, StreamSource
from spotchange.data.caches.feature_writing import FeatureWriter
from spotchange.data.caches.features import FACTS, FEATURES, ROWS, FeatureFacts, FeatureRow, Task
from spotchange.data.caches.flatfile import FlatFile
from spotchange.data.caches.images import open_cache
from spotchange.data.caches.index import RowIndex
from spotchange.data.caches.reader import pair_up
from spotchange.data.metadata import numbered_classes
from spotchange.data.protocols import get_protocol
from spotchange.errors import ConfigError, InputError
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.vision.resnet import GridNetwork, frozen_network
from spotchange.models.weights.transformers_import import import_transformers
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.scenes.views import draw_views
from spotchange.storage import outgoing_folder
from spotchange.training.sources.scene_rows import RowMaker, described_rows, object_rows, pair_rows

if TYPE_CHECKING:
    from spotchange.training.start import Start

_SCENES_AT_ONCE, _IMAGES_AT_ONCE = {"cpu": 8, "cuda": 256}, {"cpu": 16, "cuda": 512}

Part = tuple[np.ndarray, list[FeatureRow]]
Span = tuple[int, int]  # numbers from the first to before the second


@dataclass(frozen=True, kw_only=True)
class FrozenBackbone:
    """A frozen network with its preprocessing, on a device."""

    network: GridNetwork
    preprocessor: Preprocessor
    grid: tuple[int, int]
    device: str
    bf16: bool
    """Arithmetic; a GPU's training sees images so too, and features are kept in half precision anyway."""

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

    def __reduce__(self) -> tuple[Any, ...]:
        """On its way to a worker: the network's classes lie in transformers, which has to be imported with care."""
        return _unpacked, (pickle.dumps(vars(self)),)

    @torch.inference_mode()
    def see(self, images: Tensor) -> np.ndarray:
        """Bytes (images, 3, H, W) to float16 (images, cells, channels)."""
        kind = self.device.partition(":")[0]
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self.bf16):
            parts = [
                self.network.of_images(self.preprocessor(part.to(self.device))).half().cpu()
                for part in torch.split(images, _IMAGES_AT_ONCE[kind])
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


def _unpacked(content: bytes) -> FrozenBackbone:
    import_transformers()
    return FrozenBackbone(**pickle.loads(content))


def scene_features(
    out: Path,
    backbone: FrozenBackbone,
    source: StreamSource,
    *,
    task: Task,
    scenes: int,
    seed: int,
    advance: Callable[[int], None] = lambda done: None,
    cluster: ClusterOptions | None = None,
) -> FeatureFacts:
    """Features of generated scenes: pairs, described images, or objects cut out with their classes."""
    work = _SceneWork(backbone=backbone, source=source, task=task, seed=seed)
    step = _SCENES_AT_ONCE[backbone.device.partition(":")[0]]
    spans = [(start, min(start + step, scenes)) for start in range(0, scenes, step)]
    key = _key(source.model_dump(mode="json"), backbone.bf16, seed)
    with _writing(out, backbone.facts(task, paired=task == "pairs"), key, spans) as writer:
        for span, (features, rows) in _run(work, spans, writer, cluster, advance):
            first = writer.images
            numbered = [replace(row, before=row.before + first, after=row.after + first) for row in rows]
            writer.add(features, numbered, _label(span))
            advance(span[1] - span[0])
        return writer.finish()


def dataset_features(
    out: Path,
    backbone: FrozenBackbone,
    source: DatasetSource,
    *,
    advance: Callable[[int], None] = lambda done: None,
    cluster: ClusterOptions | None = None,
) -> FeatureFacts:
    """Features of a data set's split, for the task its settings name."""
    work = _ImageWork(backbone=backbone, source=source)
    folder, file, size = work.cache()
    index = RowIndex(folder)
    units = pair_up(index)
    rows = _dataset_rows(source, index, units.ravel(), backbone.grid)
    step, images = _IMAGES_AT_ONCE[backbone.device.partition(":")[0]], len(file) // size
    spans = [(first, min(first + step, images)) for first in range(0, images, step)]
    key = _key(source.model_dump(mode="json"), backbone.bf16, folder.name)
    with _writing(out, backbone.facts(source.task, paired=units.shape[1] == 2), key, spans) as writer:
        for span, (features, _) in _run(work, spans, writer, cluster, advance):
            writer.add(features, rows if span[0] == 0 else [], _label(span))
            advance(span[1] - span[0])
        return writer.finish()


@contextmanager
def _writing(out: Path, facts: FeatureFacts, key: str, spans: list[Span]) -> Iterator[FeatureWriter]:
    """A feature folder on a disk or in a store, begun or gone on with."""
    with outgoing_folder(out, (FEATURES, ROWS, FACTS)) as outgoing:
        yield FeatureWriter(outgoing, facts, key=key, labels=[_label(span) for span in spans])


def _key(*made_from: Any) -> str:
    return hashlib.sha256(json.dumps([__version__, *made_from], sort_keys=True).encode()).hexdigest()


def _label(span: Span) -> str:
    return f"{span[0]}-{span[1]}"


def _run(
    work: Work,
    spans: list[Span],
    writer: FeatureWriter,
    cluster: ClusterOptions | None,
    advance: Callable[[int], None],
) -> Iterator[tuple[Span, Part]]:
    """The parts that are not written yet, with their spans, in order."""
    left = spans[writer.parts :]
    advance(sum(end - start for start, end in spans[: writer.parts]))
    if not left:
        return
    if cluster is None:
        yield from zip(left, work.start()(left), strict=True)
        return
    # A span is a piece: its features take 10 MB, on a GPU 300 MB.
    far = in_order(run_on_ray(work, dict(enumerate(pieces(left, most=1))), cluster))
    yield from zip(left, (part for parts in far for part in parts), strict=True)


@dataclass(frozen=True, kw_only=True)
class _SceneWork:
    """Spans of scene numbers to features and rows that number the images of their span."""

    backbone: FrozenBackbone
    source: StreamSource
    task: Task
    seed: int

    def start(self) -> Callable[[Sequence[Span]], Iterator[Part]]:
        kinds: dict[Task, RowMaker] = {
            "pairs": partial(pair_rows, plain=self.source.sentences == "plain"),
            "single": described_rows,
            "classes": object_rows,
        }
        rows_of, settings = kinds[self.task], self.source.scene_settings()
        height, width = self.backbone.preprocessor.image_size
        device = self.backbone.device
        world = World(settings, seed=world_seed(self.seed), device=device)

        def parts(spans: Sequence[Span]) -> Iterator[Part]:
            for start, end in spans:
                batch = world.scenes(np.arange(start, end))
                images, ids = draw_views(
                    batch,
                    settings.look,
                    seed=world.seed,
                    width=width,
                    height=height,
                    quality=self.source.quality,
                    device=device,
                )
                images, rows = rows_of(batch, images, ids, world.seed)
                yield self.backbone.see(images), rows

        return parts

    def failed(self, item: Span, reason: str) -> Part:
        raise InputError(f"scenes {item[0]} to {item[1] - 1}: {reason}")


@dataclass(frozen=True, kw_only=True)
class _ImageWork:
    """Spans of a data set's images to features; each machine keeps decoded images of its own."""

    backbone: FrozenBackbone
    source: DatasetSource

    def cache(self) -> tuple[Path, FlatFile, int]:
        """Where decoded images lie, the file they are in, and the bytes of one."""
        height, width = self.backbone.preprocessor.image_size
        source = self.source
        folder = open_cache(source.path, source.split, height=height, width=width, cache_dir=source.cache)
        return folder, FlatFile(folder / "pictures.bin"), 3 * height * width

    def start(self) -> Callable[[Sequence[Span]], Iterator[Part]]:
        _, file, size = self.cache()
        height, width = self.backbone.preprocessor.image_size

        def parts(spans: Sequence[Span]) -> Iterator[Part]:
            for first, end in spans:
                images = torch.empty(end - first, 3, height, width, dtype=torch.uint8)
                file.read_into(first * size, images.numpy())
                yield self.backbone.see(images), []

        return parts

    def failed(self, item: Span, reason: str) -> Part:
        raise InputError(f"images {item[0]} to {item[1] - 1}: {reason}")


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
