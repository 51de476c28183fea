"""Pairs as conversations for vision-language models: generated scenes, or a data set's images as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image

from spotchange.config.model import ModelSettings
from spotchange.config.sources import DatasetSource
from spotchange.config.vlm import ChatModelSettings
from spotchange.data import list_splits, read_rows
from spotchange.data.protocols import get_protocol
from spotchange.errors import DataError
from spotchange.images import read_image
from spotchange.language import build_tokenizer, says_no_change
from spotchange.language.writer import captions_text
from spotchange.models.build import preprocessor_for, settings_for
from spotchange.models.vlm.chat import ChatBatch, ChatCoder
from spotchange.pairs import CHANGE_TYPES, PairBatch, Row
from spotchange.training.sources.interface import Batches, HeldOut, RunContext, Source
from spotchange.training.sources.order import EpochOrder
from spotchange.training.start import Start


@dataclass(frozen=True, kw_only=True)
class CaptionedPair:
    """A pair with one sentence about it."""

    before: Image.Image
    after: Image.Image
    caption: str
    change_type: int  # 0 = none, -1 = unknown
    differences: tuple[str, ...] = ()  # every one of them, where a data set lists them


class ChatSource(Protocol):
    """Where conversations come from; see `Source`."""

    def batches(self, coder: ChatCoder, pairs: int) -> Batches: ...

    def held_out(self, coder: ChatCoder, *, pairs: int, at_once: int, split: str) -> HeldOut | None: ...


class SceneChats:
    """Generated scenes; the sentence is the writer's."""

    def __init__(self, source: Source, run: RunContext) -> None:
        self._source, self._run = source, run

    def batches(self, coder: ChatCoder, pairs: int) -> Batches:
        return _SceneBatches(self._source.batches(self._run, pairs), coder)

    def held_out(self, coder: ChatCoder, *, pairs: int, at_once: int, split: str) -> HeldOut | None:
        found = self._source.held_out(self._run, pairs=pairs, at_once=at_once, split=split)
        if found is None:
            return None
        batches = [encode(coder, _scenes_told(batch)) for batch in found.batches]
        return HeldOut(batches=batches, references=found.references, check=found.check)


class _SceneBatches:
    paired, shares_before = True, False

    def __init__(self, inner: Batches, coder: ChatCoder) -> None:
        self._inner, self._coder = inner, coder

    def next_batch(self) -> ChatBatch:
        return encode(self._coder, _scenes_told(self._inner.next_batch()))

    def state_dict(self) -> dict[str, Any]:
        return self._inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._inner.load_state_dict(state)


class FolderChats:
    """A data set's pairs at the size they have; one caption of each is drawn anew every epoch."""

    def __init__(self, data: DatasetSource, *, held_out_split: str, seed: int, rank: int, processes: int) -> None:
        self._data, self._held_out_split = data, held_out_split
        self._seed, self._rank, self._processes = seed, rank, processes

    def batches(self, coder: ChatCoder, pairs: int) -> Batches:
        rows = self._rows(self._data.split)
        if not rows:
            raise DataError(f"{self._data.path} has no pair in '{self._data.split}'")
        order = EpochOrder(len(rows), pairs, seed=self._seed, rank=self._rank, processes=self._processes)
        return _FolderBatches(rows, order, coder, self._data.protocol)

    def held_out(self, coder: ChatCoder, *, pairs: int, at_once: int, split: str) -> HeldOut | None:
        chosen = self._held_out_split if split == "val" else split
        if chosen not in list_splits(self._data.path):
            return None
        rows = self._rows(chosen)[:pairs]
        references = [list(get_protocol(self._data.protocol).references(row.captions)) for row in rows]
        batches = [
            encode(coder, [_row_told(row, self._data.protocol, 0) for row in rows[first : first + at_once]])
            for first in range(0, len(rows), at_once)
        ]
        return HeldOut(batches=batches, references=references)

    def _rows(self, split: str) -> list[Row]:
        return list(read_rows(self._data.path, split))


class _FolderBatches:
    paired, shares_before = False, False

    def __init__(self, rows: list[Row], order: EpochOrder, coder: ChatCoder, protocol: str) -> None:
        self._rows, self._order, self._coder, self._protocol = rows, order, coder, protocol

    def next_batch(self) -> ChatBatch:
        drawn = [
            _row_told(self._rows[unit], self._protocol, int(stretch.draws[unit]))
            for stretch in self._order.take()
            for unit in stretch.units
        ]
        return encode(self._coder, drawn)

    def state_dict(self) -> dict[str, Any]:
        return self._order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._order.load_state_dict(state)


def encode(coder: ChatCoder, pairs: list[CaptionedPair]) -> ChatBatch:
    """As the checkpoint reads them, replies in the form its prompt asks for."""
    replies = [
        coder.prompt.reply(changed=_changed(each), caption=each.caption, differences=each.differences) for each in pairs
    ]
    return coder.encode([(each.before, each.after) for each in pairs], replies, [each.change_type for each in pairs])


def _changed(pair: CaptionedPair) -> bool:
    return pair.change_type != 0 if pair.change_type >= 0 else not says_no_change(pair.caption)


def _scenes_told(batch: PairBatch) -> list[CaptionedPair]:
    captions = captions_text(np.asarray(batch.caption_ids.cpu()))
    sides = [batch.before.permute(0, 2, 3, 1).cpu().numpy(), batch.after.permute(0, 2, 3, 1).cpu().numpy()]
    kinds = batch.change_type.tolist()
    return [
        CaptionedPair(before=Image.fromarray(before), after=Image.fromarray(after), caption=caption, change_type=kind)
        for before, after, caption, kind in zip(*sides, captions, kinds, strict=True)
    ]


def _row_told(row: Row, protocol: str, draw: int) -> CaptionedPair:
    captions = get_protocol(protocol).references(row.captions)
    known = row.change_type is not None and row.change_type in CHANGE_TYPES
    kind = CHANGE_TYPES.index(str(row.change_type)) if known else -1
    return CaptionedPair(
        before=read_image(row.before_path),
        after=read_image(row.after_path),
        caption=captions[draw % len(captions)],
        change_type=kind,
        differences=row.differences or (),
    )


def modelless_start(model: ChatModelSettings) -> Start:
    """Of a run whose words are the scenes' own and whose images have the size the recipe names; it has no model."""
    height, width = model.image_size
    tokenizer = build_tokenizer()
    patch = 16 if height % 16 == width % 16 == 0 else 8  # nobody asks for patches, but kept scenes can be shared
    vision = {"image_size": [height, width], "patch": patch}
    settings = settings_for(ModelSettings.model_validate({"preset": "spotchange-tiny", "vision": vision}), tokenizer)
    return Start(
        model=torch.nn.Identity(), settings=settings, tokenizer=tokenizer, preprocessor=preprocessor_for(settings)
    )
