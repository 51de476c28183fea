"""A held-out share of train: whole scenes, nothing lost, the official splits untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spotchange.cli.data import app
from spotchange.data import read_rows
from spotchange.data.check import check_dataset
from spotchange.data.folders import hold_out
from spotchange.errors import DataError


def test_scenes_stay_whole_and_nothing_is_lost(make_set, tmp_path: Path) -> None:
    folder = make_set(scenes=10, splits=("train", "val"))
    command = ["hold-out", str(folder), "--out", str(tmp_path / "held"), "--share", "0.3", "--json"]
    done = CliRunner().invoke(app, command)
    assert json.loads(done.stdout)["counts"] == {"train": 14, "val": 6, "official-val": 20}
    rows = {split: list(read_rows(tmp_path / "held", split)) for split in ("train", "val", "official-val")}
    scenes = {split: {row.scene_id for row in found} for split, found in rows.items()}
    assert not scenes["train"] & scenes["val"]
    assert scenes["train"] | scenes["val"] == set(range(10))
    assert [row.to_dict() for row in rows["official-val"]] == [row.to_dict() for row in read_rows(folder, "val")]
    assert check_dataset(tmp_path / "held", decode=True).ok
    assert hold_out(folder, tmp_path / "other", share=0.3, seed=1)["val"] == 6
    assert {row.scene_id for row in read_rows(tmp_path / "other", "val")} != scenes["val"]


@pytest.mark.parametrize("share", [0.0, 1.0, 0.01])
def test_a_share_must_leave_both_sides(make_set, tmp_path: Path, share: float) -> None:
    with pytest.raises(DataError, match="share"):
        hold_out(make_set(scenes=3), tmp_path / "held", share=share)
    assert not (tmp_path / "held").exists()
