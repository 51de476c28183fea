"""Writes captions as token ids: true sentences that name the changed object and nothing else.

Sentences are drawn from (seed, scene id, pair, position) alone, so they depend neither on the batch nor on the device,
and asking for more of them keeps the first ones. The work is done in `sentences.py`, which numba compiles into the
loops here and, for batches on a CUDA device, into kernels with one thread a pair (`writer_cuda.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spotchange.errors import InputError
from spotchange.kernels.compile import cached_loop
from spotchange.kernels.counter_random import stream_key
from spotchange.language.composer import CHANGE_STREAM, NO_CHANGE_STREAM, survey, write_change, write_no_change
from spotchange.language.phrases import MAX_WORDS
from spotchange.language.vocabulary import decode
from spotchange.scene import MAX_OBJECTS, SceneBatch


@cached_loop
def _write_on_cpu(scene_id, attributes, placement, camera, change, target, seed, ids):
    for s in range(ids.shape[0]):
        codes = np.empty(MAX_OBJECTS, np.int32)
        right = np.empty(MAX_OBJECTS, np.float32)
        away = np.empty(MAX_OBJECTS, np.float32)
        unique = np.empty(MAX_OBJECTS, np.int32)
        related = np.empty(4 * MAX_OBJECTS, np.int32)
        key = stream_key(seed, scene_id[s], CHANGE_STREAM)
        write_change(
            attributes[s], placement[s], camera[s], change[s], target[s], key, ids[s, 0],
            codes, right, away, unique, related,
        )  # fmt: skip
        write_no_change(stream_key(seed, scene_id[s], NO_CHANGE_STREAM), ids[s, 1])


@cached_loop
def _survey_on_cpu(attributes, placement, camera, change, target, found):
    for s in range(found.shape[0]):
        codes = np.empty(MAX_OBJECTS, np.int32)
        right = np.empty(MAX_OBJECTS, np.float32)
        away = np.empty(MAX_OBJECTS, np.float32)
        unique = np.empty(MAX_OBJECTS, np.int32)
        related = np.empty(4 * MAX_OBJECTS, np.int32)
        slot, usable = survey(
            attributes[s], placement[s], camera[s], change[s], target[s], codes, right, away, unique, related
        )
        found[s] = slot >= 0 and (unique[slot] != 0 or usable > 0)


def _arrays(batch: SceneBatch) -> list[np.ndarray]:
    names = ("attributes", "placement", "camera", "change", "target")
    return [np.ascontiguousarray(getattr(batch, name)) for name in names]


def write_captions(batch: SceneBatch, *, seed: int, per_pair: int) -> Any:
    """Captions of both pairs of every scene.

    Args:
        batch: Scenes; where its arrays lie decides where the work is done.
        seed: Any whole number; with a scene's id it fixes the scene's captions.
        per_pair: Sentences a pair. Those of a change are all different; of "no change" there are nine.

    Returns:
        int16 (S, 2, per_pair, MAX_WORDS): [BOS] words [EOS] [PAD]...; first the change, then the distractor.
        A numpy array, or a tensor on the batch's CUDA device.
    """
    if per_pair < 1:
        raise InputError(f"captions a pair must be at least 1, not {per_pair}")
    start = np.uint64(seed % 2**64)
    if getattr(batch.scene_id, "is_cuda", False):
        from spotchange.language.writer_cuda import write_on_cuda

        return write_on_cuda(batch, start, per_pair)
    ids = np.empty((len(batch), 2, per_pair, MAX_WORDS), np.int16)
    _write_on_cpu(np.ascontiguousarray(batch.scene_id), *_arrays(batch), start, ids)
    return ids


def describable(batch: SceneBatch) -> Any:
    """bool (S,): whether some phrase names the changed object alone; where not, captions are ambiguous."""
    if getattr(batch.scene_id, "is_cuda", False):
        from spotchange.language.writer_cuda import survey_on_cuda

        return survey_on_cuda(batch)
    found = np.empty(len(batch), np.bool_)
    _survey_on_cpu(*_arrays(batch), found)
    return found


def captions_text(ids: Any) -> list[str]:
    """The sentences of a (..., MAX_WORDS) array of ids, in order."""
    return [decode(row) for row in ids.reshape(-1, ids.shape[-1]).tolist()]
