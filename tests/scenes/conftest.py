"""Random scenes that keep the spacing rules, for tests of the language that need no images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from spotchange.pairs import ADD, DROP, MOVE, RECOLOR, RETEXTURE
from spotchange.scene import MAX_OBJECTS, SceneBatch

CAMERA = np.array([7.48, -6.51, 5.34])
LIMITS = (8, 3, 2, 2)


def _places(random, camera):
    """Twelve places, any two at least 0.4 apart both across and along the camera's view."""
    forward = -camera[:2] / np.hypot(*camera[:2])
    across, along = (0.5 * (random.permutation(12) - 5.5) + random.uniform(-0.05, 0.05, 12) for _ in range(2))
    return np.stack([across * forward[1] + along * forward[0], along * forward[1] - across * forward[0]], axis=1)


def make_scenes(number: int, seed: int, *, crowded: bool = False) -> SceneBatch:
    """`number` scenes with one change each; crowded ones have few colours, so look-alikes abound."""
    random = np.random.default_rng(seed)
    count = np.zeros((number, 2), np.int32)
    attributes = np.full((number, 2, MAX_OBJECTS, 4), -1, np.int8)
    placement = np.zeros((number, 2, MAX_OBJECTS, 3), np.float32)
    camera = np.zeros((number, 3, 3), np.float32)
    change = random.integers(1, 6, number).astype(np.int8)
    target = np.full((number, 2), -1, np.int8)
    limits = (2, 3, 2, 2) if crowded else LIMITS
    for s in range(number):
        before = CAMERA + random.uniform(-1, 1, 3)
        camera[s] = before, before + random.uniform(-1, 1, 3), before + random.uniform(-1, 1, 3)
        objects = random.integers(3, 11)
        places = _places(random, before)
        for i in range(objects):
            attributes[s, :, i] = [random.integers(limit) for limit in limits]
            placement[s, :, i] = *places[i], random.uniform(0, 6.28)
        count[s] = objects
        slot = random.integers(objects)
        target[s] = slot
        if change[s] == RECOLOR:
            attributes[s, 1, slot, 0] = (attributes[s, 0, slot, 0] + random.integers(1, 8)) % 8
        elif change[s] == RETEXTURE:
            attributes[s, 1, slot, 2] = 1 - attributes[s, 0, slot, 2]
        elif change[s] == ADD:
            target[s] = -1, objects
            count[s, 1] += 1
            attributes[s, 1, objects] = [random.integers(limit) for limit in limits]
            placement[s, 1, objects, :2] = places[objects]
        elif change[s] == DROP:
            target[s, 1] = -1
            attributes[s, 1, slot] = -1
        elif change[s] == MOVE:
            placement[s, 1, slot, :2] = places[objects]
    return SceneBatch(
        scene_id=np.arange(number, dtype=np.int64) + seed * 1000,
        count=count,
        attributes=attributes,
        placement=placement,
        camera=camera,
        lamps=np.zeros((number, 3, 3), np.float32),
        look=np.zeros((number, 1), np.float32),
        change=change,
        target=target,
    )


@pytest.fixture(scope="session", name="make_scenes")
def scene_maker() -> Callable[..., SceneBatch]:
    return make_scenes
