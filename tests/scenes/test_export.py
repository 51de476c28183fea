"""The two rows of a scene: what each says, and which image it names."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spotchange.config.scenes import DatasetPlan, SceneSettings
from spotchange.data.metadata import read_rows
from spotchange.images import read_image
from spotchange.pairs import CHANGE_TYPES, parse_row
from spotchange.scene import AFTER, BEFORE, MAX_OBJECTS, SAME, SHAPE, SceneBatch
from spotchange.scenes.dataset import generate_split
from spotchange.scenes.export import mean_iou, object_boxes, scene_rows
from spotchange.scenes.sampler import World
from spotchange.scenes.stream import world_seed
from spotchange.scenes.views import draw_views

SIZE = {"width": 48, "height": 32}
Drawn = tuple[SceneBatch, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    seed = world_seed(4, "train")
    batch = World(SceneSettings(), seed=seed).scenes(np.arange(4))
    images, ids = draw_views(batch, SceneSettings().look, seed=seed, **SIZE, quality="fast", device="cpu")
    return batch, images.numpy(), ids.numpy()


def test_each_row_names_the_image_it_is_about(drawn: tuple[SceneBatch, np.ndarray, np.ndarray], tmp_path: Path) -> None:
    """A distractor shows the unchanged scene from another camera, never the changed one."""
    _, images, _ = drawn
    plan = DatasetPlan.from_mapping({"seed": 4, **SIZE, "quality": "fast"}, source="test")
    generate_split(plan, out=tmp_path, scenes=4)
    rows = list(read_rows(tmp_path, "train"))
    for scene, (change, distractor) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
        named = {BEFORE: change.before_path, AFTER: change.after_path, SAME: distractor.after_path}
        for image, path in named.items():
            assert np.array_equal(np.asarray(read_image(path)).transpose(2, 0, 1), images[scene, image]), path.name
        assert distractor.before_path == change.before_path
        assert not np.array_equal(images[scene, AFTER], images[scene, SAME])


def test_rows_say_what_changed_and_where(drawn: Drawn) -> None:
    batch, _, ids = drawn
    for scene in range(len(batch)):
        boxes = object_boxes(ids[scene])
        change, distractor = scene_rows(batch, scene, boxes, [["it moved"], ["no change"]], masks=True)
        assert change.change_type == CHANGE_TYPES[batch.change[scene]]
        assert (distractor.change_type, distractor.facts, distractor.mask_file_name) == ("none", {}, None)
        assert (distractor.before_boxes, distractor.after_boxes) == ((), ())
        for version, told in enumerate((change.before_boxes, change.after_boxes)):
            slot = batch.target[scene, version]
            seen = slot >= 0 and boxes[version, slot, 2] > 0
            assert told == ((tuple(boxes[version, slot].tolist()),) if seen else ())
        assert (change.captions, distractor.captions) == (("it moved",), ("no change",))
        for row in (change, distractor):
            again = parse_row(json.dumps(row.to_dict()), row.folder)
            assert again == row


def test_mean_overlap_counts_every_shape_that_stands_still_and_is_seen() -> None:
    attributes = np.full((1, 2, MAX_OBJECTS, 4), -1, np.int8)
    attributes[0, :, :4, SHAPE] = [0, 1, 0, 2]
    placement = np.zeros((1, 2, MAX_OBJECTS, 3), np.float32)
    placement[0, 1, 2] = 1.0  # moved
    boxes = np.zeros((3, MAX_OBJECTS, 4), np.int32)
    boxes[:, 0] = (0, 0, 10, 10)
    boxes[:, 1] = (20, 0, 10, 10)
    boxes[AFTER, 1, 0] += 5  # half of it shared: 50 of 150
    boxes[:, 2] = (40, 0, 10, 10)
    boxes[BEFORE, 3] = (60, 0, 10, 10)  # hidden in the other image
    scene: Any = SimpleNamespace(attributes=attributes, placement=placement)
    assert mean_iou(scene, 0, boxes, AFTER) == pytest.approx((1 + 1 / 3) / 2)
