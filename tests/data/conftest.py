"""A small data set of pairs with distractors, as real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spotchange.data import Row, write_rows

MakeSet = Callable[..., Path]


def paint(path: Path, seed: int, size: tuple[int, int] = (48, 32)) -> None:
    """A smooth random image that survives JPEG."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(path)


@pytest.fixture
def make_set(tmp_path: Path) -> MakeSet:
    """Write a data set with `scenes` scenes a split, each a change pair and a distractor pair."""

    def make(name: str = "set", scenes: int = 4, splits: tuple[str, ...] = ("train", "val", "test")) -> Path:
        for split_index, split in enumerate(splits):
            folder = tmp_path / name / split
            rows = []
            for scene in range(scenes):
                number = scene + 1000 * split_index
                for image, kind in enumerate(("before", "after", "same")):
                    paint(folder / "images" / f"{number:06d}_{kind}.jpg", seed=3 * number + image)
                rows += scene_rows(number)
            write_rows(folder / "metadata.jsonl", rows)
        return tmp_path / name

    return make


def scene_rows(number: int) -> list[Row]:
    """The change row and the distractor row of a made-up scene."""
    target = {"shape": "cube", "size": "small", "color": "red", "material": "metal"}
    return [
        Row(
            id=f"{number}_change",
            before_file_name=f"images/{number:06d}_before.jpg",
            after_file_name=f"images/{number:06d}_after.jpg",
            captions=("the small red metal cube turned blue", f"the cube became blue {number}"),
            change_type="color",
            facts={"target": target, "new": "blue"},
            before_boxes=((6.0, 4.0, 12.0, 8.0),),
            after_boxes=((6.0, 4.0, 12.0, 8.0),),
            scene_id=number,
        ),
        Row(
            id=f"{number}_same",
            before_file_name=f"images/{number:06d}_before.jpg",
            after_file_name=f"images/{number:06d}_same.jpg",
            captions=("there is no change",),
            change_type="none",
            facts={},
            before_boxes=(),
            after_boxes=(),
            scene_id=number,
        ),
    ]
