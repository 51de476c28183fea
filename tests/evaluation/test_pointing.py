from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spotchange.data import Row
from spotchange.evaluation.pointing import pointing_values, score_image, score_pair, true_masks

SIZE = (64, 48)  # width, height


def make_row(folder: Path, **known: object) -> Row:
    for name in ("before.png", "after.png"):
        Image.new("RGB", SIZE).save(folder / name)
    return Row(id="1", before_file_name="before.png", after_file_name="after.png", folder=folder, **known)  # type: ignore[arg-type]


def hot_at(row: int, column: int) -> np.ndarray:
    heat = np.full((6, 8), 0.01, dtype=np.float32)
    heat[row, column] = 1
    return heat


def test_the_peak_must_lie_inside_the_mask() -> None:
    mask = np.zeros((48, 64), dtype=bool)
    mask[8:16, 24:32] = True  # exactly patch (1, 3)
    inside, touches, coverage = score_image(hot_at(1, 3), mask)
    assert inside
    assert touches
    assert coverage == pytest.approx(1 / 1.47, abs=1e-4)
    assert score_image(hot_at(2, 3), mask)[:2] == (False, False)
    mask[12:16] = False
    mask[8:12, 24:28] = False  # the patch still touches, its middle no longer lies inside
    assert score_image(hot_at(1, 3), mask)[:2] == (False, True)
    assert score_image(np.zeros((6, 8), np.float32), mask)[2] == 0


def test_which_images_are_judged(tmp_path: Path) -> None:
    boxes = {"before_boxes": ((24, 8, 8, 8),), "after_boxes": ((40, 32, 8, 8),)}
    right = np.stack([hot_at(1, 3), hot_at(4, 5)])
    only_before = np.stack([hot_at(1, 3), hot_at(0, 0)])
    only_after = np.stack([hot_at(0, 0), hot_at(4, 5)])
    for kind, heat, hit in [
        ("color", right, 1),
        ("move", only_before, 0),
        ("texture", only_after, 0),
        ("drop", only_before, 1),
        ("drop", only_after, 0),
        ("add", only_after, 1),
        ("add", only_before, 0),
    ]:
        judged = score_pair(make_row(tmp_path, change_type=kind, **boxes), heat)
        assert judged is not None
        assert judged[0] == hit, kind
    assert score_pair(make_row(tmp_path, change_type="none", **boxes), right) is None
    assert score_pair(make_row(tmp_path, change_type="color"), right) is None


def test_the_mask_is_cut_to_the_boxes_of_each_side(tmp_path: Path) -> None:
    drawn = np.zeros((48, 64), dtype=np.uint8)
    drawn[8:16, 24:30] = drawn[32:40, 40:48] = 255
    Image.fromarray(drawn).save(tmp_path / "mask.png")
    row = make_row(
        tmp_path,
        change_type="move",
        mask_file_name="mask.png",
        before_boxes=((24, 8, 8, 8),),
        after_boxes=((40, 32, 8, 8),),
    )
    before, after = true_masks(row)
    assert before is not None
    assert after is not None
    assert (before.sum(), after.sum()) == (48, 64)
    whole = true_masks(make_row(tmp_path, mask_file_name="mask.png"))
    assert [mask.sum() for mask in whole if mask is not None] == [112, 112]


def test_what_cannot_be_judged_is_left_out(tmp_path: Path) -> None:
    known = make_row(tmp_path, change_type="add", after_boxes=((40, 32, 8, 8),))
    heat = np.stack([hot_at(0, 0), hot_at(4, 5)])
    assert pointing_values(known, heat)["pointing"] == 1
    assert pointing_values(known, None) == {}
    assert pointing_values(make_row(tmp_path, change_type="add"), heat) == {}


def test_the_peak_of_a_plateau_is_its_middle() -> None:
    heat = np.zeros((6, 8), np.float32)
    heat[1:4, 2:5] = 1.0
    mask = np.zeros((60, 80), bool)
    mask[22:28, 32:38] = True  # inside the middle one of the nine patches
    assert score_image(heat, mask)[0]
