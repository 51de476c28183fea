"""Single images in words: sentences about one image, and the class of every object.

Training that borrows from neighbouring tasks (image captioning, fine-grained classification) takes these beside pairs.
The words are those of the captions, so one vocabulary serves both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spotchange.language.phrases import RELATION_FORMS, SYNONYMS
from spotchange.scene import (
    AFTER,
    ATTRIBUTE_VALUES,
    COLOR,
    COLORS,
    MATERIAL,
    MATERIALS,
    SHAPE,
    SHAPES,
    SIZE,
    SceneBatch,
)

CLASS_NAMES = tuple(f"{color} {material} {shape}" for color in COLORS for material in MATERIALS for shape in SHAPES)

# As for captions: a relation is said only where it is plain to see.
CLEAR_OFFSET = 0.2
_SPOKEN_ORDER = (SIZE, COLOR, MATERIAL, SHAPE)
_MOST_TRIES = 100


def object_classes(attributes: Any) -> np.ndarray:
    """int64 (...): index into CLASS_NAMES of objects (..., 4), -1 for empty slots."""
    attributes = np.asarray(attributes, np.int64)
    color, material, shape = (attributes[..., k] for k in (COLOR, MATERIAL, SHAPE))
    return np.where(shape < 0, -1, (color * len(MATERIALS) + material) * len(SHAPES) + shape)


def describe_view(batch: SceneBatch, scene: int, image: int, *, seed: int, sentences: int = 3) -> list[str]:
    """Different true sentences about one image, such as "there is a small red cube left of the large sphere".

    Args:
        batch: Scenes as numpy arrays.
        scene: Which of them.
        image: BEFORE, AFTER or SAME.
        seed: With the scene's id and the image it fixes the sentences.
        sentences: How many; a scene with few objects may give fewer.
    """
    version = 1 if image == AFTER else 0
    there = np.flatnonzero(batch.attributes[scene, version, :, SHAPE] >= 0)
    things = batch.attributes[scene, version, there]  # (objects, 4)
    offsets = _offsets(batch.placement[scene, version, there, :2], batch.camera[scene, image])
    random = np.random.default_rng([seed, int(batch.scene_id[scene]), image])
    said: dict[str, None] = {}
    for _ in range(_MOST_TRIES):
        if len(said) == sentences:
            break
        said[_sentence(things, offsets, random)] = None
    return list(said)


def _offsets(places: np.ndarray, camera: np.ndarray) -> np.ndarray:
    """(4, objects, objects): how far object i stands left of, right of, behind, in front of object j."""
    ahead = -camera[:2] / np.hypot(*camera[:2])
    across = places @ np.array([ahead[1], -ahead[0]])
    depth = places @ ahead
    right, behind = across[:, None] - across, depth[:, None] - depth
    return np.stack([-right, right, behind, -behind])


def _sentence(things: np.ndarray, offsets: np.ndarray, random: np.random.Generator) -> str:
    """One object, alone or beside another that its phrase singles out."""
    i = random.integers(len(things))
    stated = random.random(4) < 0.7
    relations, anchors = np.nonzero(offsets[:, i] > CLEAR_OFFSET)
    if len(anchors) == 0 or random.random() < 0.3:
        return f"there is a {_phrase(things[i], stated, random)}"
    chosen = random.integers(len(anchors))
    relation = _pick(RELATION_FORMS[relations[chosen]], random)
    anchor = things[anchors[chosen]]
    masks = [mask for mask in map(np.array, np.ndindex(2, 2, 2, 2)) if _fitting(things, anchor, mask) == 1]
    if not masks:  # a twin: no phrase without a relation of its own names it
        return f"there is a {_phrase(things[i], stated, random)}"
    other = f"the {_phrase(anchor, masks[random.integers(len(masks))], random)}"
    if _fitting(things, things[i], stated) == 1 and random.random() < 0.5:
        return f"the {_phrase(things[i], stated, random)} is {relation} {other}"
    return f"there is a {_phrase(things[i], stated, random)} {relation} {other}"


def _fitting(things: np.ndarray, thing: np.ndarray, stated: np.ndarray) -> int:
    """How many objects share the stated attributes of one of them."""
    return int(((things == thing) | ~stated.astype(bool)).all(1).sum())


def _phrase(thing: np.ndarray, stated: np.ndarray, random: np.random.Generator) -> str:
    words = []
    for attribute in _SPOKEN_ORDER:
        if stated[attribute]:
            value = ATTRIBUTE_VALUES[attribute][thing[attribute]]
            words.append(_pick(SYNONYMS.get(value, (value,)), random))
        elif attribute == SHAPE:
            words.append(_pick(("object", "thing"), random))
    # The language has "a" but no "an": an adjective or another noun must stand before a bare "object".
    return "thing" if words == ["object"] else " ".join(words)


def _pick(choices: tuple[str, ...], random: np.random.Generator) -> str:
    return choices[random.integers(len(choices))]
