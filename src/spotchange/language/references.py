"""Which phrases name exactly one object: compiled scalar code, one source for CPU loops and CUDA kernels.

A *mask* says which attributes a phrase states: bit k for attribute k (color, shape, material, size), so 0 is
"the object" and 15 the full description. A *mask set* is 16 bits, bit m for mask m. Sets make uniqueness cheap: the
masks under which another object fits too are exactly the submasks of the attributes both share.
"""

from __future__ import annotations

import math

import numpy as np

from spotchange.kernels.compile import shared
from spotchange.language.phrases import BEHIND, LEFT, RIGHT

FULL_MASK = 15
EVERY_MASK_SET = 0xFFFF
EMPTY = -1  # code of an empty slot

# A relation is claimed only from this far, and an object counts as excluded only from this far on the other side.
# Centres are 0.4 apart as the first camera sees them, so the margin only bites for `add`, told from the second camera.
# It is a little over CLEVR's own 0.2, so that rounding on the way to a file cannot make a sentence false.
MARGIN = np.float32(0.21)

# SHARED_MASKS[e]: the mask set under which two objects sharing the attributes e cannot be told apart.
SHARED_MASKS = np.array([sum(1 << mask for mask in range(16) if mask & ~shared == 0) for shared in range(16)], np.int32)


@shared
def shared_attributes(code, other):
    """Bit k set where two packed descriptions agree in attribute k."""
    difference = code ^ other
    alike = 0
    for k in range(4):
        if (difference >> (4 * k)) & 15 == 0:
            alike |= 1 << k
    return alike


@shared
def read_scene(attributes, placement, camera, codes, right, away):
    """Pack every object's attributes and find how far right and how far away it stands, seen from the camera.

    Args:
        attributes: (objects, 4) of one version of the scene.
        placement: (objects, 3) likewise.
        camera: Its position; it looks at the origin.
        codes: Out: four bits an attribute, or EMPTY.
        right: Out: ground distance to the right of the image's middle.
        away: Out: ground distance from the origin away from the camera.
    """
    length = np.float32(math.sqrt(camera[0] * camera[0] + camera[1] * camera[1]))
    forward_x = -camera[0] / length
    forward_y = -camera[1] / length
    for i in range(codes.shape[0]):
        if attributes[i, 1] < 0:
            codes[i] = EMPTY
            continue
        code = 0
        for k in range(4):
            code |= np.int32(attributes[i, k]) << (4 * k)
        codes[i] = code
        right[i] = placement[i, 0] * forward_y - placement[i, 1] * forward_x
        away[i] = placement[i, 0] * forward_x + placement[i, 1] * forward_y


@shared
def relation_offset(relation, i, anchor, right, away):
    """How far object i stands from the anchor in the direction that the relation names."""
    if relation == LEFT:
        return right[anchor] - right[i]
    if relation == RIGHT:
        return right[i] - right[anchor]
    if relation == BEHIND:
        return away[i] - away[anchor]
    return away[anchor] - away[i]


@shared
def find_unique_masks(codes, unique):
    """For every object, the set of masks that describe it and nothing else in the scene."""
    for i in range(codes.shape[0]):
        unique[i] = 0
        if codes[i] == EMPTY:
            continue
        alike = 0
        for j in range(codes.shape[0]):
            if j != i and codes[j] != EMPTY:
                alike |= SHARED_MASKS[shared_attributes(codes[i], codes[j])]
        unique[i] = EVERY_MASK_SET & ~alike


@shared
def find_related_masks(target, codes, right, away, unique, related):
    """For every anchor and relation, the masks under which "<target> <relation> the <anchor>" names the target alone.

    Args:
        target: Slot of the object to name.
        codes: As `read_scene` fills it, like right and away.
        right: See codes.
        away: See codes.
        unique: From `find_unique_masks`; an anchor must be describable by itself.
        related: Out: mask sets at [4 * anchor + relation].

    Returns:
        How many entries are not empty.
    """
    usable = 0
    for anchor in range(codes.shape[0]):
        for relation in range(4):
            related[4 * anchor + relation] = 0
            if anchor == target or codes[anchor] == EMPTY or unique[anchor] == 0:
                continue
            if relation_offset(relation, target, anchor, right, away) < MARGIN:
                continue
            alike = 0
            for j in range(codes.shape[0]):
                if j == target or codes[j] == EMPTY:
                    continue
                if j != anchor and relation_offset(relation, j, anchor, right, away) > -MARGIN:
                    alike |= SHARED_MASKS[shared_attributes(codes[target], codes[j])]
            related[4 * anchor + relation] = EVERY_MASK_SET & ~alike
            if related[4 * anchor + relation] != 0:
                usable += 1
    return usable


@shared
def nearest_anchor(target, codes, right, away):
    """The object nearest to the target, and the relation along which they are furthest apart."""
    best = np.float32(1e9)
    anchor = -1
    for j in range(codes.shape[0]):
        if j == target or codes[j] == EMPTY:
            continue
        distance = (right[j] - right[target]) ** 2 + (away[j] - away[target]) ** 2
        if distance < best:
            best = distance
            anchor = j
    relation = 0
    for candidate in range(1, 4):
        if relation_offset(candidate, target, anchor, right, away) > relation_offset(
            relation, target, anchor, right, away
        ):
            relation = candidate
    return anchor, relation
