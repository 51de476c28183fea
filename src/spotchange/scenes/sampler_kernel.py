"""One scene, drawn by one thread: objects, cameras, lamps and the change. One source for the CPU and CUDA.

Decisions are taken in float64 on numbers with 24 random bits, without fast math: there a fused multiply-add (CUDA
uses it, the CPU does not) changes a sum by 1e-16 at most, too little to make the devices accept different scenes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from spotchange.kernels.counter_random import below, signed, stream_key, uniform
from spotchange.pairs import ADD, DROP, MOVE, RECOLOR, RETEXTURE
from spotchange.scene import (
    AFTER,
    BEFORE,
    COLOR,
    COLORS,
    MATERIAL,
    MATERIALS,
    MAX_OBJECTS,
    SAME,
    SHAPE,
    SHAPES,
    SIZE,
    SIZES,
)

# Places of the settings in the float64 array of rules; see `world.rules_of`.
FEWEST, MOST, TRIES, AREA, GAP, MARGIN, MOVE_DISTANCE, CAMERA_JITTER, CAMERA_TURN, LAMP_JITTER = range(10)
RULES = 10

RADIUS_LARGE, RADIUS_SMALL = 0.7, 0.35
HOME_X, HOME_Y, HOME_Z = 7.48, -6.51, 5.34  # of the camera
COLOR_COUNT, SHAPE_COUNT, MATERIAL_COUNT, SIZE_COUNT = len(COLORS), len(SHAPES), len(MATERIALS), len(SIZES)

# A view (cameras and lamps) is kept over this many attempts, so that hard views are not drawn less often than easy
# ones; then a fresh one is taken, so that a hopeless view cannot stop the work.
ATTEMPTS_PER_VIEW = 64
MAX_ATTEMPTS = 1 << 16

# Streams of a scene: attempt k is stream k, the others stand far above.
PLAN_STREAM = 1 << 32
VIEW_STREAM = 1 << 33
LOOK_STREAM = 1 << 34
KIND_STREAM = 1 << 35

# Draws of one object stand together: attributes first, then two numbers per try for its place.
DRAWS_PER_OBJECT = 1024  # room for two draws a try
FIRST_TRY = 16
CHANGE_DRAWS = MAX_OBJECTS * DRAWS_PER_OBJECT


@njit
def draw_view(s, key, rules, camera, lamps):
    """The first camera, two more that start from it, and the offsets of the lamps."""
    jitter, turn = rules[CAMERA_JITTER], rules[CAMERA_TURN]
    x = HOME_X + jitter * signed(key, 0)
    y = HOME_Y + jitter * signed(key, 1)
    z = HOME_Z + jitter * signed(key, 2)
    camera[s, BEFORE, 0], camera[s, BEFORE, 1], camera[s, BEFORE, 2] = x, y, z
    for image in range(AFTER, SAME + 1):
        draws = 4 * image
        angle = turn * signed(key, draws + 3)
        cos, sin = math.cos(angle), math.sin(angle)
        camera[s, image, 0] = cos * x - sin * y + jitter * signed(key, draws)
        camera[s, image, 1] = sin * x + cos * y + jitter * signed(key, draws + 1)
        camera[s, image, 2] = z + jitter * signed(key, draws + 2)
    for lamp in range(3):
        for axis in range(3):
            lamps[s, lamp, axis] = rules[LAMP_JITTER] * signed(key, 16 + 3 * lamp + axis)


@njit
def radius_of(size):
    """Radius or half edge of an object."""
    return RADIUS_LARGE if size == 0 else RADIUS_SMALL


@njit
def is_free(s, version, slots, skip, x, y, size, rules, camera, attributes, placement):
    """Whether a place keeps its gap to every object and its margin along the first camera's two directions."""
    view_x, view_y = np.float64(camera[s, BEFORE, 0]), np.float64(camera[s, BEFORE, 1])
    margin = rules[MARGIN] * math.sqrt(view_x * view_x + view_y * view_y)
    for other in range(slots):
        if other == skip or attributes[s, version, other, SHAPE] < 0:
            continue
        dx = x - np.float64(placement[s, version, other, 0])
        dy = y - np.float64(placement[s, version, other, 1])
        reach = radius_of(size) + radius_of(attributes[s, version, other, SIZE]) + rules[GAP]
        if dx * dx + dy * dy < reach * reach:
            return False
        if abs(dx * view_x + dy * view_y) < margin:  # front and behind
            return False
        if abs(dx * view_y - dy * view_x) < margin:  # left and right
            return False
    return True


@njit
def find_place(s, version, slots, skip, key, draws, size, rules, camera, attributes, placement):
    """The first free place among the tries: whether there is one, x and y.

    With `skip` >= 0 the object in that slot is the one that moves: it keeps `MOVE_DISTANCE` from where it stood.
    """
    for attempt in range(np.int64(rules[TRIES])):
        # Rounded as it will be stored, so that the stored place keeps the rules.
        x = np.float64(np.float32(rules[AREA] * signed(key, draws + FIRST_TRY + 2 * attempt)))
        y = np.float64(np.float32(rules[AREA] * signed(key, draws + FIRST_TRY + 2 * attempt + 1)))
        if skip >= 0:
            dx = x - np.float64(placement[s, version, skip, 0])
            dy = y - np.float64(placement[s, version, skip, 1])
            if dx * dx + dy * dy < rules[MOVE_DISTANCE] * rules[MOVE_DISTANCE]:
                continue
        if is_free(s, version, slots, skip, x, y, size, rules, camera, attributes, placement):
            return True, x, y
    return False, 0.0, 0.0


@njit
def add_object(s, version, slot, key, rules, camera, attributes, placement):
    """Put a new random object into `slot`; false when no try found room."""
    draws = slot * DRAWS_PER_OBJECT
    size = below(key, draws, SIZE_COUNT)
    found, x, y = find_place(s, version, slot, -1, key, draws, size, rules, camera, attributes, placement)
    if not found:
        return False
    placement[s, version, slot, 0] = x
    placement[s, version, slot, 1] = y
    placement[s, version, slot, 2] = 2.0 * math.pi * uniform(key, draws + 4)
    attributes[s, version, slot, COLOR] = below(key, draws + 1, COLOR_COUNT)
    attributes[s, version, slot, SHAPE] = below(key, draws + 2, SHAPE_COUNT)
    attributes[s, version, slot, MATERIAL] = below(key, draws + 3, MATERIAL_COUNT)
    attributes[s, version, slot, SIZE] = size
    return True


@njit
def clear_slot(s, version, slot, attributes, placement):
    """Leave no object there: attributes -1, place zero."""
    for part in range(4):
        attributes[s, version, slot, part] = -1
    for part in range(3):
        placement[s, version, slot, part] = 0.0


@njit
def place_objects(s, objects, key, rules, camera, attributes, placement):
    """Fill the scene before, and start the scene after as its copy; false when an object found no room."""
    for slot in range(MAX_OBJECTS):
        clear_slot(s, 0, slot, attributes, placement)
    for slot in range(objects):
        if not add_object(s, 0, slot, key, rules, camera, attributes, placement):
            return False
    for slot in range(MAX_OBJECTS):
        for part in range(4):
            attributes[s, 1, slot, part] = attributes[s, 0, slot, part]
        for part in range(3):
            placement[s, 1, slot, part] = placement[s, 0, slot, part]
    return True


@njit
def make_change(s, kind, objects, key, rules, camera, attributes, placement, count, target):
    """Change one object of the scene after; false when it found no room."""
    slot = np.int64(objects)
    if kind != ADD:
        slot = below(key, CHANGE_DRAWS, objects)
    count[s, 0] = objects
    count[s, 1] = objects
    target[s, 0] = -1 if kind == ADD else slot
    target[s, 1] = -1 if kind == DROP else slot
    if kind == RECOLOR:
        shift = 1 + below(key, CHANGE_DRAWS + 1, COLOR_COUNT - 1)
        attributes[s, 1, slot, COLOR] = (attributes[s, 0, slot, COLOR] + shift) % COLOR_COUNT
    elif kind == RETEXTURE:
        attributes[s, 1, slot, MATERIAL] = 1 - attributes[s, 0, slot, MATERIAL]
    elif kind == ADD:
        count[s, 1] = objects + 1
        return add_object(s, 1, slot, key, rules, camera, attributes, placement)
    elif kind == DROP:
        clear_slot(s, 1, slot, attributes, placement)
        if slot == objects - 1:
            count[s, 1] = objects - 1
    elif kind == MOVE:
        size = attributes[s, 1, slot, SIZE]
        found, x, y = find_place(s, 1, objects, slot, key, CHANGE_DRAWS, size, rules, camera, attributes, placement)
        if not found:
            return False
        placement[s, 1, slot, 0] = x
        placement[s, 1, slot, 1] = y
    return True


@njit
def kind_of(seed, scene, changes):
    """The scene's change. Neighbouring scenes share out the kinds in random order, so every split holds all of them
    equally often, as the official splits do."""
    kinds = changes.shape[0]
    place = scene % kinds
    key = stream_key(seed, scene // kinds, KIND_STREAM)
    for kind in range(kinds):
        own = uniform(key, kind)
        before = 0
        for other in range(kinds):
            drawn = uniform(key, other)
            if drawn < own or (drawn == own and other < kind):
                before += 1
        if before == place:
            return np.int64(changes[kind])
    return np.int64(changes[0])  # never reached: ranks are a permutation


@njit
def sample_scene(
    s, seed, limit, rules, changes, attempts, scene_id, count, attributes, placement, camera, lamps, look, change,
    target,
):  # fmt: skip
    """Draw scene `scene_id[s]` into row s by up to `limit` attempts from number `attempts[s]` on.

    `attempts[s]` becomes the number of the attempt that fitted, or -1. `look` gets uniform numbers, from which
    `look.draw` makes the look.

    How many objects and which change are drawn once per scene, not per attempt: crowded scenes and changes that
    need room fail more often, and redrawing them would make both rarer than the benchmark has them.
    """
    plan = stream_key(seed, scene_id[s], PLAN_STREAM)
    fewest = np.int64(rules[FEWEST])
    objects = fewest + below(plan, 0, np.int64(rules[MOST]) - fewest + 1)
    kind = kind_of(seed, scene_id[s], changes)
    change[s] = kind
    looks = stream_key(seed, scene_id[s], LOOK_STREAM)
    for column in range(look.shape[1]):
        look[s, column] = uniform(looks, column)
    first = np.int64(attempts[s])
    attempts[s] = -1
    view = np.int64(-1)
    for attempt in range(first, first + limit):
        if attempt // ATTEMPTS_PER_VIEW != view:
            view = np.int64(attempt // ATTEMPTS_PER_VIEW)
            draw_view(s, stream_key(seed, scene_id[s], VIEW_STREAM + view), rules, camera, lamps)
        key = stream_key(seed, scene_id[s], attempt)
        if not place_objects(s, objects, key, rules, camera, attributes, placement):
            continue
        if make_change(s, kind, objects, key, rules, camera, attributes, placement, count, target):
            attempts[s] = attempt
            return
