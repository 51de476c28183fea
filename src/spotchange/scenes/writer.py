"""Writes captions as token ids: true sentences that name the changed object and nothing else.

Sentences are drawn from (seed, scene id, pair, position) alone, so they depend neither on the batch nor on the device,
and asking for more of them keeps the first ones. The scalar code is shared: numba compiles it into a CPU loop over
scenes and, for batches on a CUDA device, into a kernel with one thread a pair (`writer_cuda.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from spotchange.errors import InputError
from spotchange.scenes.arrays import ADD, AFTER, BEFORE, COLOR, MATERIAL, MAX_OBJECTS, RECOLOR, SHAPE, SIZE, SceneBatch
from spotchange.scenes.compile import cached_loop, shared
from spotchange.scenes.phrases import (
    ANY_OBJECT_COUNT,
    ANY_OBJECT_WORDS,
    ATTRIBUTE_COUNT,
    ATTRIBUTE_START,
    ATTRIBUTE_WORDS,
    IS_ID,
    MAX_WORDS,
    NO_CHANGE_COUNT,
    NO_CHANGE_WORDS,
    RELATION_COUNT,
    RELATION_WORDS,
    THAT_ID,
    THE_ID,
    VALUE,
    VERB_COUNT,
    VERB_WORDS,
)
from spotchange.scenes.random import below, stream_key
from spotchange.scenes.references import (
    FULL_MASK,
    find_related_masks,
    find_unique_masks,
    nearest_anchor,
    read_scene,
)
from spotchange.scenes.vocabulary import BOS_ID, EOS_ID, PAD_ID, decode

MOST_TRIES = 64  # to find a sentence not yet said about this pair; thousands exist, so the first or second will do

CHANGE_STREAM, NO_CHANGE_STREAM = 1 << 36, 1 << 37  # of a scene's random numbers, apart from those of the world
_COPRIME_TO_NINE = np.array([1, 2, 4, 5, 7, 8], np.int32)


@shared
def _pick_mask(mask_set, key, step):
    """One mask of a set: half the time the full description, else any."""
    if below(key, step, 2) == 0 and (mask_set >> FULL_MASK) & 1:
        return FULL_MASK
    members = 0
    for mask in range(16):
        members += (mask_set >> mask) & 1
    skip = below(key, step + 1, members)
    for mask in range(16):
        if (mask_set >> mask) & 1:
            if skip == 0:
                return mask
            skip -= 1
    return FULL_MASK


@shared
def _put(row, at, words):
    """Append PAD-terminated words."""
    for i in range(words.shape[0]):
        if words[i] == PAD_ID:
            break
        row[at] = words[i]
        at += 1
    return at


@shared
def _put_attribute(row, at, attribute, value, choice):
    entry = ATTRIBUTE_START[attribute] + value
    return _put(row, at, ATTRIBUTE_WORDS[entry, choice % ATTRIBUTE_COUNT[entry]])


@shared
def _put_object(row, at, code, mask, key, step):
    """the [size] [color] [material] shape-or-object; uses steps step to step + 3."""
    row[at] = THE_ID
    at += 1
    for position in range(4):
        attribute = SHAPE
        if position == 0:
            attribute = SIZE
        elif position == 1:
            attribute = COLOR
        elif position == 2:
            attribute = MATERIAL
        choice = below(key, step + position, 6)  # 6 divides evenly by every number of synonyms
        if (mask >> attribute) & 1:
            at = _put_attribute(row, at, attribute, (code >> (4 * attribute)) & 15, choice)
        elif attribute == SHAPE:
            at = _put(row, at, ANY_OBJECT_WORDS[0, choice % ANY_OBJECT_COUNT[0]])
    return at


@shared
def _put_relation(row, at, relation, key, step):
    """[that is] <relation>; uses two steps."""
    if below(key, step, 2) == 0:
        row[at] = THAT_ID
        row[at + 1] = IS_ID
        at += 2
    return _put(row, at, RELATION_WORDS[relation, below(key, step + 1, RELATION_COUNT[relation])])


@shared
def _put_reference(row, at, target, codes, right, away, unique, related, usable, key):
    """The target, by attributes alone or by a relation to another object; uses steps 0 to 19."""
    if unique[target] != 0 and (usable == 0 or below(key, 0, 2) == 0):
        return _put_object(row, at, codes[target], _pick_mask(unique[target], key, 1), key, 3)
    mask = FULL_MASK
    anchor_mask = FULL_MASK
    if usable == 0:
        # Nothing singles the target out: say what comes closest. `describable` is false for this scene.
        anchor, relation = nearest_anchor(target, codes, right, away)
    else:
        entry = 0
        skip = below(key, 7, usable)
        while related[entry] == 0 or skip > 0:
            if related[entry] != 0:
                skip -= 1
            entry += 1
        anchor = entry // 4
        relation = entry % 4
        mask = _pick_mask(related[entry], key, 8)
        anchor_mask = _pick_mask(unique[anchor], key, 10)
    at = _put_object(row, at, codes[target], mask, key, 3)
    at = _put_relation(row, at, relation, key, 12)
    return _put_object(row, at, codes[anchor], anchor_mask, key, 14)


@shared
def _put_change(row, at, change, value, key):
    """The verb phrase, with the new value where it has one; uses steps 20 and 21."""
    words = VERB_WORDS[change, below(key, 20, VERB_COUNT[change])]
    for i in range(words.shape[0]):
        if words[i] == PAD_ID:
            break
        if words[i] == VALUE:
            attribute = COLOR if change == RECOLOR else MATERIAL
            at = _put_attribute(row, at, attribute, value, below(key, 21, 6))
        else:
            row[at] = words[i]
            at += 1
    return at


@shared
def _finish(row, at):
    row[0] = BOS_ID
    row[at] = EOS_ID
    for i in range(at + 1, row.shape[0]):
        row[i] = PAD_ID


@shared
def _said_before(rows, k):
    for earlier in range(k):
        same = True
        for i in range(rows.shape[1]):
            if rows[earlier, i] != rows[k, i]:
                same = False
                break
        if same:
            return True
    return False


@shared
def write_no_change(key, rows):
    """All nine sentences in an order of the pair's own, then again."""
    start = below(key, 0, 9)
    stride = _COPRIME_TO_NINE[below(key, 1, 6)]
    for k in range(rows.shape[0]):
        at = _put(rows[k], 1, NO_CHANGE_WORDS[0, (start + k * stride) % NO_CHANGE_COUNT[0]])
        _finish(rows[k], at)


@shared
def survey(attributes, placement, camera, change, target, codes, right, away, unique, related):
    """Fill the five scratch arrays for one scene; gives the slot to name and the number of usable relations.

    A change is told about the scene before it, seen from the first camera; an added object only exists after.
    """
    version = BEFORE
    if change == ADD:
        version = AFTER
    slot = np.int32(target[version])
    read_scene(attributes[version], placement[version], camera[version], codes, right, away)
    find_unique_masks(codes, unique)
    return slot, find_related_masks(slot, codes, right, away, unique, related)


@shared
def write_change(attributes, placement, camera, change, target, key, rows, codes, right, away, unique, related):
    """Different sentences about one change, one a row."""
    slot, usable = survey(attributes, placement, camera, change, target, codes, right, away, unique, related)
    value = np.int32(0)
    if target[AFTER] >= 0:
        value = np.int32(attributes[AFTER, target[AFTER], COLOR if change == RECOLOR else MATERIAL])
    for k in range(rows.shape[0]):
        for attempt in range(MOST_TRIES):
            draw = stream_key(key, k, attempt)
            at = _put_reference(rows[k], 1, slot, codes, right, away, unique, related, usable, draw)
            _finish(rows[k], _put_change(rows[k], at, change, value, draw))
            if not _said_before(rows, k):
                break


@cached_loop
def _write_on_cpu(scene_id, attributes, placement, camera, change, target, seed, ids):
    for s in prange(ids.shape[0]):
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
    for s in prange(found.shape[0]):
        codes = np.empty(MAX_OBJECTS, np.int32)
        right = np.empty(MAX_OBJECTS, np.float32)
        away = np.empty(MAX_OBJECTS, np.float32)
        unique = np.empty(MAX_OBJECTS, np.int32)
        related = np.empty(4 * MAX_OBJECTS, np.int32)
        slot, usable = survey(
            attributes[s], placement[s], camera[s], change[s], target[s], codes, right, away, unique, related
        )
        found[s] = unique[slot] != 0 or usable > 0


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
        from spotchange.scenes.writer_cuda import write_on_cuda

        return write_on_cuda(batch, start, per_pair)
    ids = np.empty((len(batch), 2, per_pair, MAX_WORDS), np.int16)
    _write_on_cpu(np.ascontiguousarray(batch.scene_id), *_arrays(batch), start, ids)
    return ids


def describable(batch: SceneBatch) -> Any:
    """bool (S,): whether some phrase names the changed object alone; where not, captions are ambiguous."""
    if getattr(batch.scene_id, "is_cuda", False):
        from spotchange.scenes.writer_cuda import survey_on_cuda

        return survey_on_cuda(batch)
    found = np.empty(len(batch), np.bool_)
    _survey_on_cpu(*_arrays(batch), found)
    return found


def captions_text(ids: Any) -> list[str]:
    """The sentences of a (..., MAX_WORDS) array of ids, in order."""
    return [decode(row) for row in ids.reshape(-1, ids.shape[-1]).tolist()]
