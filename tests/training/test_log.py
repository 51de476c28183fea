"""The log tells one story, however often a run was cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spotchange.config.training import LogSettings
from spotchange.training.log import RunLog, read_log

STEP = {"loss": 1.5, "pairs_per_second": 10.0, "seconds_per_step": 0.1}


def test_lines_are_json_and_a_torn_one_is_dropped(tmp_path: Path) -> None:
    log = RunLog(tmp_path, LogSettings(), steps=4, start=0, main=True)
    log.event("start", step=0)
    log.step({"step": 1, **STEP})
    log.close()
    with (tmp_path / "log.jsonl").open("a") as stream:
        stream.write('{"kind": "train", "st')  # killed while writing
    assert [line["kind"] for line in read_log(tmp_path / "log.jsonl")] == ["start", "train"]


def test_a_resumed_run_forgets_the_steps_it_takes_again(tmp_path: Path) -> None:
    log = RunLog(tmp_path, LogSettings(), steps=6, start=0, main=True)
    for step in range(1, 6):
        log.step({"step": step, **STEP})
    log.close()
    resumed = RunLog(tmp_path, LogSettings(), steps=6, start=3, main=True)
    resumed.step({"step": 4, **STEP, "loss": 9.0})
    resumed.close()
    assert [(line["step"], line["loss"]) for line in read_log(tmp_path / "log.jsonl")] == [
        (1, 1.5),
        (2, 1.5),
        (3, 1.5),
        (4, 9.0),
    ]


def test_a_new_run_begins_a_new_log(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps({"kind": "train", "step": 1}) + "\n")
    RunLog(tmp_path, LogSettings(), steps=6, start=0, main=True).close()
    assert read_log(tmp_path / "log.jsonl") == []


def test_other_processes_are_silent(tmp_path: Path, capsys) -> None:
    log = RunLog(tmp_path / "none", LogSettings(), steps=4, start=0, main=False)
    log.step({"step": 1, **STEP})
    log.validation({"step": 1, "loss": 1.0})
    log.close()
    assert not (tmp_path / "none").exists()
    assert capsys.readouterr() == ("", "")


def test_words_go_to_stderr_only(tmp_path: Path, capsys) -> None:
    log = RunLog(tmp_path, LogSettings(), steps=4, start=0, main=True)
    log.step({"step": 1, **STEP})
    log.validation({"step": 1, "CIDEr-D": 0.25})
    log.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "step 1/4" in err
    assert "min left" in err
    assert "CIDEr-D 25.0" in err


def test_tensorboard_is_written_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    log = RunLog(tmp_path, LogSettings(tensorboard=True), steps=4, start=0, main=True)
    log.step({"step": 1, **STEP})
    log.close()
    assert list((tmp_path / "tensorboard").glob("events.*"))
