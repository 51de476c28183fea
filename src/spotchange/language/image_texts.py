"""Descriptions of one image as token ids: several true clauses about different objects, for contrastive training.

"there is a small red cube left of the large sphere there is a metal thing": between one and six clauses, as many as
fit. Compiled scalar code, one source for CPU loops and CUDA kernels; `descriptions.py` writes single sentences as text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spotchange.kernels.compile import cached_loop, shared
from spotchange.kernels.counter_random import below, stream_key
from spotchange.language.composer import finish, pick_mask, put, put_object
from spotchange.language.phrases import A_ID, IS_ID, RELATION_COUNT, RELATION_WORDS, THE_ID, THERE_ID, THING_ID
from spotchange.language.references import EMPTY, MARGIN, find_unique_masks, read_scene, relation_offset
from spotchange.scene import BEFORE, MAX_OBJECTS, SceneBatch

IMAGE_STREAM = 1 << 38  # of a scene's random numbers, apart from those of the world and of captions
MOST_CLAUSES = 6
MAX_IMAGE_WORDS = 64  # begin and end tokens included
_LONGEST_CLAUSE = 3 + 4 + 5 + 5  # there is a ..., on the left side of, the ...
_STEPS = 64  # random numbers of one clause
_ANCHORS_TRIED = 4


@shared
def shuffle_objects(codes, order, key):
    """The slots that hold an object, in random order; gives how many."""
    objects = 0
    for slot in range(codes.shape[0]):
        if codes[slot] != EMPTY:
            place = below(key, 1 + slot, objects + 1)
            order[objects] = order[place]
            order[place] = slot
            objects += 1
    return objects


@shared
def stated_attributes(key, step):
    """A mask of attributes to say, each seven times of ten; uses four steps."""
    mask = 0
    for attribute in range(4):
        if below(key, step + attribute, 10) < 7:
            mask |= 1 << attribute
    return mask


@shared
def put_clause(row, at, slot, codes, right, away, unique, key, step):
    """there is a <object> [<relation> the <object>]"""
    row[at], row[at + 1] = THERE_ID, IS_ID
    mask = stated_attributes(key, step)
    at = put_object(row, at + 2, A_ID, codes[slot], mask, key, step + 4)
    if mask == 0:
        row[at - 1] = THING_ID  # the language has "a" but no "an": never "a object"
    if below(key, step + 8, 2) == 0:
        return at
    for attempt in range(_ANCHORS_TRIED):
        draw = step + 16 + 8 * attempt
        anchor = below(key, draw, codes.shape[0])
        relation = below(key, draw + 1, 4)
        if anchor == slot or codes[anchor] == EMPTY or unique[anchor] == 0:
            continue
        if relation_offset(relation, slot, anchor, right, away) < MARGIN:
            continue
        at = put(row, at, RELATION_WORDS[relation, below(key, draw + 2, RELATION_COUNT[relation])])
        return put_object(row, at, THE_ID, codes[anchor], pick_mask(unique[anchor], key, draw + 3), key, step + 10)
    return at


@shared
def write_image_text(attributes, placement, camera, key, row, codes, right, away, unique, order):
    """Fill `row` with the description of one version of a scene seen from one camera."""
    read_scene(attributes, placement, camera, codes, right, away)
    find_unique_masks(codes, unique)
    objects = shuffle_objects(codes, order, key)
    clauses = 1 + below(key, 0, MOST_CLAUSES)
    at = 1
    for clause in range(clauses):
        if clause < objects and at + _LONGEST_CLAUSE < row.shape[0]:
            at = put_clause(row, at, order[clause], codes, right, away, unique, key, _STEPS * (clause + 1))
    finish(row, at)


@cached_loop
def _write_on_cpu(scene_id, attributes, placement, camera, seed, ids):
    for s in range(ids.shape[0]):
        codes = np.empty(MAX_OBJECTS, np.int32)
        right = np.empty(MAX_OBJECTS, np.float32)
        away = np.empty(MAX_OBJECTS, np.float32)
        unique = np.empty(MAX_OBJECTS, np.int32)
        order = np.empty(MAX_OBJECTS, np.int32)
        key = stream_key(seed, scene_id[s], IMAGE_STREAM)
        write_image_text(
            attributes[s, 0], placement[s, 0], camera[s, 0], key, ids[s], codes, right, away, unique, order
        )


def write_image_texts(batch: SceneBatch, *, seed: int) -> Any:
    """A description of every scene as its image before shows it.

    Args:
        batch: Scenes; where its arrays lie decides where the work is done.
        seed: Any whole number; with a scene's id it fixes the description.

    Returns:
        int16 (S, MAX_IMAGE_WORDS): [BOS] words [EOS] [PAD]...; a numpy array, or a tensor on the batch's CUDA device.
    """
    start = np.uint64(seed % 2**64)
    if getattr(batch.scene_id, "is_cuda", False):
        from spotchange.language.writer_cuda import write_image_texts_on_cuda

        return write_image_texts_on_cuda(batch, start)
    ids = np.empty((len(batch), MAX_IMAGE_WORDS), np.int16)
    arrays = (batch.scene_id, batch.attributes, batch.placement, batch.camera[:, BEFORE : BEFORE + 1])
    _write_on_cpu(*map(np.ascontiguousarray, arrays), start, ids)
    return ids
