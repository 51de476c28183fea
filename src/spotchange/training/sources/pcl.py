"""From data settings to IDC-PCL's pre-training batches: tasks on pairs, single pictures and classes, in any mix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spotchange.config.objectives import PclPretrainSettings
from spotchange.config.sources import DatasetSource, FeatureSource, MixedSource, StreamSource
from spotchange.data.caches.features import FeatureRow, read_feature_rows
from spotchange.data.caches.images import open_cache
from spotchange.data.caches.reader import PairReader
from spotchange.data.metadata import read_rows
from spotchange.data.negatives.falsehood import says_no_change
from spotchange.data.negatives.retrieval import NegativeWriter
from spotchange.data.negatives.scenes import SceneNegatives
from spotchange.data.negatives.table import stored_negatives
from spotchange.errors import DataError
from spotchange.language.writer import captions_text, write_captions
from spotchange.locks import only_one_process
from spotchange.pairs import PairBatch, Row
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import PLAIN_CHOICES, plainest, world_seed
from spotchange.training.sources.base import BatchSource, MixedBatches
from spotchange.training.sources.features import ClassBatches, FeatureBatches, encode_captions
from spotchange.training.sources.tasks import TaskBatches

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from spotchange.training.sources.build import Feeding

_SCENES_TO_RETRIEVE_FROM = 1000  # of the stream, whose captions never end
_CAPTIONS_EACH = 3

Negatives = Callable[[PairBatch], tuple[Tensor, Tensor]]


def task_source(feeding: Feeding, data: StreamSource | DatasetSource | FeatureSource | MixedSource, pairs: int) -> Any:
    """A source of `TaskBatch`es, which only IDC-PCL's pre-training reads; a mix draws from its sources by weight."""
    if isinstance(data, MixedSource):
        sources = [task_source(feeding, each, pairs) for each in data.sources]
        return MixedBatches(sources, data.weights, seed=feeding.recipe.seed)
    settings = feeding.recipe.stage.objective
    assert isinstance(settings, PclPretrainSettings)
    if isinstance(data, FeatureSource):
        store = feeding.feature_store(data)
        if store.facts.task == "classes":
            numbers = torch.tensor([row.before for row in store.rows])
            class_ids = [row.class_id for row in store.rows]
            return _classes(feeding, lambda rows: store.pictures(numbers[rows]), class_ids, pairs)
    if isinstance(data, DatasetSource) and data.task == "classes":
        return _classes_on_disk(feeding, data, pairs)
    source = feeding.source(data, pairs)
    needed = settings.tasks.fda > 0
    return TaskBatches(
        feeding.augmented(source),
        settings.tasks,
        seed=feeding.recipe.seed,
        single=_is_single(data, source),
        # Augmentation draws for each pair, so that even one picture then looks different in two.
        shared_before=isinstance(data, StreamSource) and not feeding.recipe.augment.active,
        negatives=_negatives(feeding, data, source, settings) if needed else _none_needed,
    )


def _is_single(data: StreamSource | DatasetSource | FeatureSource, source: BatchSource) -> bool:
    if isinstance(source, FeatureBatches):
        return source.store.facts.task == "single"
    return isinstance(data, DatasetSource) and data.task == "single"


def _none_needed(batch: PairBatch) -> tuple[Tensor, Tensor]:
    raise AssertionError("the task fda has no weight and is never drawn")


def _negatives(
    feeding: Feeding,
    data: StreamSource | DatasetSource | FeatureSource,
    source: BatchSource,
    settings: PclPretrainSettings,
) -> Negatives:
    counts, denials = settings.negatives, settings.denials
    vocabulary = feeding.start.settings.vocabulary
    encode = CaptionCoder(feeding.start.tokenizer, max_words=feeding.max_words, pad=vocabulary.pad)
    if isinstance(data, FeatureSource) and not feeding.recipe.augment.symmetries:
        assert isinstance(source, FeatureBatches)
        with only_one_process(Path(data.path) / ".negatives.lock"):
            sentences = stored_negatives(Path(data.path), source.rows, counts, denials=denials)
        return StoredNegatives(source, sentences, encode)
    if isinstance(data, StreamSource):
        return _negatives_of_scenes(feeding, data, settings, encode)
    truths: dict[str, list[str]] = {}
    every: list[str] = []
    rows: Iterable[Row | FeatureRow] = (
        read_feature_rows(data.path)  # mirrored captions have other negatives than those stored with the features
        if isinstance(data, FeatureSource)
        else read_rows(data.path, data.split, check_files=False)
    )
    for row in rows:
        every += row.captions
        for caption in row.captions:
            truths.setdefault(encode.round_trip(caption), []).extend(row.captions)
    return WrittenNegatives(NegativeWriter(every, counts=counts, denials=denials), truths, encode)


def _negatives_of_scenes(
    feeding: Feeding, data: StreamSource, settings: PclPretrainSettings, encode: CaptionCoder
) -> Negatives:
    """On the device where the model has the scenes' own words; CLIP's pieces of words are written to."""
    captions, counts, denials = scene_captions(feeding, data), settings.negatives, settings.denials
    if feeding.scene_words() is None:
        return SceneNegatives(captions, counts=counts, denials=denials)
    return WrittenNegatives(NegativeWriter(captions_text(captions), counts=counts, denials=denials), {}, encode)


def scene_captions(feeding: Feeding, data: StreamSource) -> Tensor:
    """Sentences to retrieve from, as ids of scene words on the device: those of the stream's first scenes."""
    world = World(data.scene_settings(), seed=world_seed(feeding.recipe.seed), device=feeding.device_name)
    scenes = world.scenes(np.arange(_SCENES_TO_RETRIEVE_FROM))
    plain = data.sentences == "plain"
    drawn = write_captions(scenes, seed=world.seed, per_pair=PLAIN_CHOICES if plain else _CAPTIONS_EACH)
    captions = torch.as_tensor(drawn).to(feeding.device)
    return (plainest(captions) if plain else captions).flatten(0, -2).long()


class CaptionCoder:
    """Sentences to ids and back, by the model's tokenizer."""

    def __init__(self, tokenizer: Tokenizer, *, max_words: int, pad: int) -> None:
        self._tokenizer, self._max_words, self._pad = tokenizer, max_words, pad

    def ids(self, captions: list[str]) -> tuple[Tensor, Tensor]:
        """Ids and mask (captions, words)."""
        return encode_captions(self._tokenizer, captions, max_words=self._max_words, pad=self._pad)

    def text(self, ids: Sequence[int]) -> str:
        """The sentence of ids, without special tokens."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def round_trip(self, caption: str) -> str:
        """A caption as it reads once it was cut and encoded: what a batch can tell of it."""
        ids, mask = self.ids([caption])
        return self.text(ids[0][mask[0]].tolist())


class StoredNegatives:
    """All negatives of a feature folder's captions, on the device."""

    def __init__(self, source: FeatureBatches, sentences: list[list[str]], encode: CaptionCoder) -> None:
        self._source = source
        count = len(sentences[0])
        ids, mask = encode.ids([sentence for each in sentences for sentence in each])
        device = source.store.device
        self._ids = ids.view(-1, count, ids.shape[1]).to(device)  # (captions, negatives, words)
        self._mask = mask.view(-1, count, mask.shape[1]).to(device)

    def __call__(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Of the captions in the batch that the source gave last."""
        assert self._source.last_captions is not None
        return self._ids[self._source.last_captions], self._mask[self._source.last_captions]


class WrittenNegatives:
    """Negatives written as captions come by, and remembered; with denials, not those of pairs without a change."""

    def __init__(self, writer: NegativeWriter, truths: dict[str, list[str]], encode: CaptionCoder) -> None:
        self._writer, self._truths, self._encode = writer, truths, encode
        self._known: dict[str, tuple[Tensor, Tensor]] = {}

    def __call__(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """For every caption of the batch."""
        rows = zip(batch.caption_ids.tolist(), batch.caption_mask.sum(dim=1).tolist(), strict=True)
        found = [self._of(self._encode.text(ids[:length])) for ids, length in rows]
        device = batch.caption_ids.device
        ids, mask = (torch.stack(parts).to(device) for parts in zip(*found, strict=True))
        # As wide as the batch's own captions, beside which they are read.
        missing = batch.caption_ids.shape[1] - ids.shape[2]
        return F.pad(ids, (0, missing)), F.pad(mask, (0, missing))

    def _of(self, caption: str) -> tuple[Tensor, Tensor]:
        if self._writer.denials and says_no_change(
            caption
        ):  # others each time, or these few would be known to be false by themselves
            return self._encode.ids(self._writer.write(caption, seed=int(torch.randint(2**31, ()))))
        if caption not in self._known:
            if len(self._known) > 200_000:
                self._known.clear()  # an endless stream must not fill the memory
            written = self._writer.write(caption, truths=self._truths.get(caption, ()))
            self._known[caption] = self._encode.ids(written)
        return self._known[caption]


def _classes(feeding: Feeding, read: Callable[[Tensor], Tensor], class_ids: list[int], pairs: int) -> ClassBatches:
    return ClassBatches(
        read,
        class_ids,
        classes=feeding.start.settings.heads.classes,
        batch=pairs,
        seed=feeding.recipe.seed,
        device=feeding.device,
        rank=feeding.rank,
        world_size=feeding.processes,
    )


def _classes_on_disk(feeding: Feeding, data: DatasetSource, pairs: int) -> ClassBatches:
    height, width = feeding.start.settings.vision.image_size
    folder = open_cache(data.path, data.split, height=height, width=width, cache_dir=data.cache)
    class_ids: list[Any] = [row.extra.get("class_id") for row in read_rows(data.path, data.split, check_files=False)]
    if not all(isinstance(each, int) for each in class_ids):
        raise DataError(f"{data.path} has rows without a column class_id", hint="it cannot serve as task: classes")
    # Numbers from 0 on, whatever the set calls its classes.
    known = {each: number for number, each in enumerate(sorted(set(class_ids)))}
    reader = PairReader(
        folder, tokenizer=feeding.start.tokenizer, max_words=4, grid=None, protocol="pairs", pin_memory=False
    )

    def read(rows: Tensor) -> Tensor:
        return reader.read(rows.numpy(), np.zeros(len(rows), np.int64)).before.to(feeding.device)

    return _classes(feeding, read, [known[each] for each in class_ids], pairs)
