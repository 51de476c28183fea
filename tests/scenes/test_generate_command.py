"""`spotchange generate` as people call it: refusals before any work, and a summary for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.config.scenes import SPLIT_SCENES, proportional_scenes
from spotchange.data.metadata import read_rows
from spotchange.errors import SpotchangeError

SMALL = ("--size", "48x32", "--quality", "fast", "--device", "cpu")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--pairs", "3"), "must be even"),
        (("--pairs", "0"), "at least 2"),
        (("--pairs", "-2"), "at least 2"),
        (("--pairs", "4", "--size", "8x8"), "width"),
        (("--pairs", "4", "--size", "480"), "not of the form"),
        (("--pairs", "4", "--split", "dev"), "unknown split"),
        (("--pairs", "4", "--preset", "clever"), "unknown preset"),
        (("--pairs", "4", "--quality", "best"), "quality"),
        (("--pairs", "4", "--changes", "colour"), "did you mean 'color'"),
        (("--pairs", "4", "--references", "3"), "references"),
        (("--pairs", "4", "--device", "tpu"), "unknown device"),
        (("--pairs", "4", "--set", "max_objects=20"), "max_objects"),
        (("--pairs", "4", "--set", "area=0.5"), "do not fit"),
        (("--pairs", "4", "--set", "area=1.6", *SMALL), "no room"),
        (("--pairs", "4", "--workers", "2"), "need --engine ray"),
        (("--pairs", "4", "--library", "things"), "--library: only for --world everyday"),
        (("--world", "everyday", "--masks", "--set", "a=1"), "--masks, --set: not for --world everyday"),
    ],
)
def test_bad_input_is_refused_before_any_work(options: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    out = tmp_path / "set"
    result = CliRunner().invoke(app, ["generate", "--out", str(out), *options])
    assert isinstance(result.exception, SpotchangeError), result.output
    assert reason in result.exception.message
    assert not out.exists()


def test_all_splits_at_once_with_a_summary(tmp_path: Path) -> None:
    command = ["generate", "--out", str(tmp_path), "--split", "all", "--pairs", "44", "--changes", "add,drop", "--json"]
    result = CliRunner().invoke(app, [*command, *SMALL], catch_exceptions=False)
    summary = json.loads(result.stdout)
    assert [(part["split"], part["pairs"]) for part in summary["splits"]] == [("train", 38), ("val", 2), ("test", 4)]
    for part in summary["splits"]:
        rows = list(read_rows(tmp_path, part["split"]))
        assert len(rows) == part["pairs"] == part["new_pairs"]
        assert {row.change_type for row in rows} <= {"none", "add", "drop"}
        assert part["change_types"]["none"] == len(rows) // 2


def test_shares_follow_the_official_sizes() -> None:
    assert proportional_scenes(sum(SPLIT_SCENES.values())) == SPLIT_SCENES
    assert proportional_scenes(100) == {"train": 86, "val": 4, "test": 10}


def test_all_splits_of_too_few_pairs_are_refused(tmp_path: Path) -> None:
    command = ["generate", "--out", str(tmp_path / "set"), "--split", "all", "--pairs", "40"]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, SpotchangeError)
    assert "at least 42 pairs" in refused.exception.message
    assert not (tmp_path / "set").exists()
