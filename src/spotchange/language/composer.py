"""Puts sentences together, word by word: compiled scalar code, one source for CPU loops and CUDA kernels.

`references.py` says which phrases name one object; here one of them, its synonyms and a verb are drawn. Every decision
of a sentence has its own step in the sentence's random numbers.
"""

from __future__ import annotations

import numpy as np

from spotchange.kernels.compile import shared
from spotchange.kernels.counter_random import below, stream_key
from spotchange.language.phrases import (
    ANY_OBJECT_COUNT,
    ANY_OBJECT_WORDS,
    ATTRIBUTE_COUNT,
    ATTRIBUTE_START,
    ATTRIBUTE_WORDS,
    IS_ID,
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
from spotchange.language.references import (
    EMPTY,
    FULL_MASK,
    find_related_masks,
    find_unique_masks,
    nearest_anchor,
    read_scene,
)
from spotchange.language.vocabulary import BOS_ID, EOS_ID, PAD_ID
from spotchange.pairs import ADD, RECOLOR
from spotchange.scene import AFTER, BEFORE, COLOR, MATERIAL, SHAPE, SIZE

MOST_TRIES = 64  # to find a sentence not yet said about this pair; thousands exist, so the first or second will do

CHANGE_STREAM, NO_CHANGE_STREAM = 1 << 36, 1 << 37  # of a scene's random numbers, apart from those of the world
_COPRIME_TO_NINE = np.array([1, 2, 4, 5, 7, 8], np.int32)


@shared
def pick_mask(mask_set, key, step):
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
def put(row, at, words):
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
    return put(row, at, ATTRIBUTE_WORDS[entry, choice % ATTRIBUTE_COUNT[entry]])


@shared
def put_object(row, at, article, code, mask, key, step):
    """the-or-a [size] [color] [material] shape-or-object; uses steps step to step + 3."""
    row[at] = article
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
            at = put(row, at, ANY_OBJECT_WORDS[0, choice % ANY_OBJECT_COUNT[0]])
    return at


@shared
def _put_relation(row, at, relation, key, step):
    """[that is] <relation>; uses two steps."""
    if below(key, step, 2) == 0:
        row[at] = THAT_ID
        row[at + 1] = IS_ID
        at += 2
    return put(row, at, RELATION_WORDS[relation, below(key, step + 1, RELATION_COUNT[relation])])


@shared
def _put_reference(row, at, target, codes, right, away, unique, related, usable, key):
    """The target, by attributes alone or by a relation to another object; uses steps 0 to 19."""
    if unique[target] != 0 and (usable == 0 or below(key, 0, 2) == 0):
        return put_object(row, at, THE_ID, codes[target], pick_mask(unique[target], key, 1), key, 3)
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
        mask = pick_mask(related[entry], key, 8)
        anchor_mask = pick_mask(unique[anchor], key, 10)
    at = put_object(row, at, THE_ID, codes[target], mask, key, 3)
    at = _put_relation(row, at, relation, key, 12)
    return put_object(row, at, THE_ID, codes[anchor], anchor_mask, key, 14)


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
def finish(row, at):
    """Frame a sentence that ends before `at`."""
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
        at = put(rows[k], 1, NO_CHANGE_WORDS[0, (start + k * stride) % NO_CHANGE_COUNT[0]])
        finish(rows[k], at)


@shared
def survey(attributes, placement, camera, change, target, codes, right, away, unique, related):
    """Fill the five scratch arrays for one scene; gives the slot to name and the number of usable relations.

    The slot is -1 where no changed object is there.

    A change is told about the scene before it, seen from the first camera; an added object only exists after.
    """
    version = BEFORE
    if change == ADD:
        version = AFTER
    slot = np.int32(target[version])
    read_scene(attributes[version], placement[version], camera[version], codes, right, away)
    find_unique_masks(codes, unique)
    if slot < 0 or codes[slot] == EMPTY:
        return np.int32(-1), np.int64(0)
    return slot, np.int64(find_related_masks(slot, codes, right, away, unique, related))


@shared
def write_change(attributes, placement, camera, change, target, key, rows, codes, right, away, unique, related):
    """Different sentences about one change, one a row."""
    slot, usable = survey(attributes, placement, camera, change, target, codes, right, away, unique, related)
    if slot < 0:  # a scene that was given up: nothing can be said of it, and nothing may be read from it
        for k in range(rows.shape[0]):
            finish(rows[k], 1)
        return
    value = np.int32(0)
    if target[AFTER] >= 0:
        value = np.int32(attributes[AFTER, target[AFTER], COLOR if change == RECOLOR else MATERIAL])
    for k in range(rows.shape[0]):
        for attempt in range(MOST_TRIES):
            draw = stream_key(key, k, attempt)
            at = _put_reference(rows[k], 1, slot, codes, right, away, unique, related, usable, draw)
            finish(rows[k], _put_change(rows[k], at, change, value, draw))
            if not _said_before(rows, k):
                break
