"""Launches the writers' scalar code on a CUDA device, one thread a text; imported only for batches that lie there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import cuda, float32, int32

from spotchange.kernels.compile import cached_kernel
from spotchange.kernels.counter_random import stream_key
from spotchange.language.composer import CHANGE_STREAM, NO_CHANGE_STREAM, survey, write_change, write_no_change
from spotchange.language.image_texts import IMAGE_STREAM, MAX_IMAGE_WORDS, write_image_text
from spotchange.language.phrases import MAX_WORDS
from spotchange.scene import MAX_OBJECTS, SceneBatch

THREADS = 128
RELATED = 4 * MAX_OBJECTS


@cached_kernel()
def write_kernel(scene_id, attributes, placement, camera, change, target, seed, ids):
    thread = cuda.grid(1)
    scenes = ids.shape[0]
    if thread >= 2 * scenes:
        return
    s = thread % scenes
    if thread >= scenes:  # distractors stand together: neighbouring threads do the same work
        write_no_change(stream_key(seed, scene_id[s], NO_CHANGE_STREAM), ids[s, 1])
        return
    codes = cuda.local.array(MAX_OBJECTS, int32)
    right = cuda.local.array(MAX_OBJECTS, float32)
    away = cuda.local.array(MAX_OBJECTS, float32)
    unique = cuda.local.array(MAX_OBJECTS, int32)
    related = cuda.local.array(RELATED, int32)
    key = stream_key(seed, scene_id[s], CHANGE_STREAM)
    write_change(
        attributes[s], placement[s], camera[s], change[s], target[s], key, ids[s, 0],
        codes, right, away, unique, related,
    )  # fmt: skip


@cached_kernel()
def survey_kernel(attributes, placement, camera, change, target, found):
    s = cuda.grid(1)
    if s >= found.shape[0]:
        return
    codes = cuda.local.array(MAX_OBJECTS, int32)
    right = cuda.local.array(MAX_OBJECTS, float32)
    away = cuda.local.array(MAX_OBJECTS, float32)
    unique = cuda.local.array(MAX_OBJECTS, int32)
    related = cuda.local.array(RELATED, int32)
    slot, usable = survey(
        attributes[s], placement[s], camera[s], change[s], target[s], codes, right, away, unique, related
    )
    found[s] = 1 if slot >= 0 and (unique[slot] != 0 or usable > 0) else 0


@cached_kernel()
def image_text_kernel(scene_id, attributes, placement, camera, seed, ids):
    s = cuda.grid(1)
    if s >= ids.shape[0]:
        return
    codes = cuda.local.array(MAX_OBJECTS, int32)
    right = cuda.local.array(MAX_OBJECTS, float32)
    away = cuda.local.array(MAX_OBJECTS, float32)
    unique = cuda.local.array(MAX_OBJECTS, int32)
    order = cuda.local.array(MAX_OBJECTS, int32)
    key = stream_key(seed, scene_id[s], IMAGE_STREAM)
    write_image_text(attributes[s, 0], placement[s, 0], camera[s, 0], key, ids[s], codes, right, away, unique, order)


def _launch(kernel: Any, threads: int, device: torch.device, *arguments: Any) -> None:
    """Queue a kernel on torch's current stream, so that it runs in order with torch's own work."""
    if threads == 0:
        return
    stream = cuda.external_stream(torch.cuda.current_stream(device).cuda_stream)
    views = [cuda.as_cuda_array(value, sync=False) if isinstance(value, torch.Tensor) else value for value in arguments]
    kernel[(threads + THREADS - 1) // THREADS, THREADS, stream](*views)


def _arrays(batch: SceneBatch) -> list[torch.Tensor]:
    names = ("attributes", "placement", "camera", "change", "target")
    return [getattr(batch, name).contiguous() for name in names]


def write_on_cuda(batch: SceneBatch, seed: np.uint64, per_pair: int) -> torch.Tensor:
    """See `writer.write_captions`."""
    device = batch.scene_id.device
    ids = torch.empty((len(batch), 2, per_pair, MAX_WORDS), dtype=torch.int16, device=device)
    _launch(write_kernel, 2 * len(batch), device, batch.scene_id.contiguous(), *_arrays(batch), seed, ids)
    return ids


def survey_on_cuda(batch: SceneBatch) -> torch.Tensor:
    """See `writer.describable`."""
    device = batch.scene_id.device
    found = torch.empty(len(batch), dtype=torch.uint8, device=device)
    _launch(survey_kernel, len(batch), device, *_arrays(batch), found)
    return found.bool()


def write_image_texts_on_cuda(batch: SceneBatch, seed: np.uint64) -> torch.Tensor:
    """See `image_texts.write_image_texts`."""
    device = batch.scene_id.device
    ids = torch.empty((len(batch), MAX_IMAGE_WORDS), dtype=torch.int16, device=device)
    arrays = [getattr(batch, name).contiguous() for name in ("scene_id", "attributes", "placement", "camera")]
    _launch(image_text_kernel, len(batch), device, *arrays, seed, ids)
    return ids
