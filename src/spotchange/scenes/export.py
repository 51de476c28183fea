"""One scene on its way to disk: three images, two rows, one line of scene JSON."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from spotchange.pairs import CHANGE_TYPES, PixelBox, Row
from spotchange.scene import AFTER, BEFORE, MAX_OBJECTS, SAME, SHAPE, SceneBatch
from spotchange.scenes.changes import facts

VIEW_NAMES = ("before", "after", "same")
FOLDER = "images"


def scene_name(number: int) -> str:
    """The scene's number as files and rows write it."""
    return f"{number:06d}"


def image_file(number: int, view: int) -> str:
    """Path of an image beside the metadata file."""
    return f"{FOLDER}/{scene_name(number)}_{VIEW_NAMES[view]}.png"


def mask_file(number: int) -> str:
    """Path of the mask of a scene's changed object."""
    return f"masks/{scene_name(number)}.png"


def scene_rows(
    batch: SceneBatch, scene: int, boxes: np.ndarray, captions: Sequence[Sequence[str]], *, masks: bool
) -> tuple[Row, Row]:
    """The change row and the distractor row of one scene.

    Args:
        batch: Scenes as numpy arrays.
        scene: Which of them.
        boxes: int (images, slots, 4) of this scene: x, y, width, height; width 0 where nothing is seen.
        captions: Sentences of the change pair and of the distractor pair.
        masks: Whether the change row names a mask.
    """
    number = int(batch.scene_id[scene])

    def row(letter: str, second: int, **known: Any) -> Row:
        return Row(
            id=scene_name(number) + letter,
            before_file_name=image_file(number, BEFORE),
            after_file_name=image_file(number, second),
            scene_id=number,
            extra={"iou": round(mean_iou(batch, scene, boxes, second), 5)},
            **known,
        )

    change = row(
        "c",
        AFTER,
        captions=tuple(captions[0]),
        change_type=CHANGE_TYPES[batch.change[scene]],
        facts=facts(batch, scene),
        before_boxes=_changed_box(batch, scene, boxes, 0),
        after_boxes=_changed_box(batch, scene, boxes, 1),
        mask_file_name=mask_file(number) if masks else None,
    )
    distractor = row(
        "n", SAME, captions=tuple(captions[1]), change_type=CHANGE_TYPES[0], facts={}, before_boxes=(), after_boxes=()
    )
    return change, distractor


def _changed_box(batch: SceneBatch, scene: int, boxes: np.ndarray, version: int) -> tuple[PixelBox, ...]:
    """Where the changed object is seen before (version 0) or after (1): one box, or none where it is not there."""
    slot = batch.target[scene, version]
    if slot < 0 or boxes[version, slot, 2] == 0:
        return ()
    x, y, width, height = boxes[version, slot].tolist()
    return ((x, y, width, height),)


def mean_iou(batch: SceneBatch, scene: int, boxes: np.ndarray, second: int) -> float:
    """How far the second image's view is from the first's: the original's measure of difficulty, small is hard.

    The mean overlap (intersection over union) of the boxes of every object that stands in the same place in both
    images and is seen in both. The original gives a number a scene and no formula. Its values do not differ between
    moves and other changes, so a moved object is not among those counted. Mean and quartiles then agree: 0.504 (0.404,
    0.493, 0.604) here against 0.507 (0.41, 0.50, 0.60).
    """
    version = 0 if second == SAME else 1
    first_slots, slots = batch.attributes[scene, 0, :, SHAPE], batch.attributes[scene, version, :, SHAPE]
    still = (batch.placement[scene, 0] == batch.placement[scene, version]).all(1)
    counted = (first_slots >= 0) & (slots >= 0) & still & (boxes[BEFORE, :, 2] > 0) & (boxes[second, :, 2] > 0)
    overlaps = [_iou(boxes[BEFORE, slot], boxes[second, slot]) for slot in np.flatnonzero(counted)]
    return float(np.mean(overlaps)) if overlaps else 0.0


def _iou(first: np.ndarray, second: np.ndarray) -> float:
    """Overlap of two boxes."""
    sides = first[2:], second[2:]
    apart = np.abs(first[:2] + first[2:] / 2 - second[:2] - second[2:] / 2)
    shared = float(np.prod(np.clip((sides[0] + sides[1]) / 2 - apart, 0, np.minimum(*sides))))
    return shared / (float(np.prod(sides[0])) + float(np.prod(sides[1])) - shared)


def object_boxes(ids: np.ndarray) -> np.ndarray:
    """int32 (images, slots, 4): x, y, width, height of every object in id images (images, H, W)."""
    boxes = np.zeros((len(ids), MAX_OBJECTS, 4), np.int32)
    for view, image in enumerate(ids):
        for slot in np.unique(image[image > 0]).astype(int) - 1:
            rows, columns = (np.flatnonzero((image == slot + 1).any(axis)) for axis in (1, 0))
            boxes[view, slot] = columns[0], rows[0], np.ptp(columns) + 1, np.ptp(rows) + 1
    return boxes


def change_mask(batch: SceneBatch, scene: int, ids: np.ndarray) -> np.ndarray:
    """uint8 (H, W): 255 where the changed object is seen in the image before or the image after."""
    mask = np.zeros(ids.shape[1:], bool)
    for version in (0, 1):
        if batch.target[scene, version] >= 0:
            mask |= ids[version] == batch.target[scene, version] + 1
    return mask.astype(np.uint8) * 255


def encode_png(image: np.ndarray) -> bytes:
    """An image (3, H, W) or mask (H, W) as PNG, packed quickly: the same pixels give the same bytes."""
    buffer = io.BytesIO()
    pixels = image if image.ndim == 2 else np.ascontiguousarray(image.transpose(1, 2, 0))
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
