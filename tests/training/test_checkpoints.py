"""Whenever the machine dies, one whole checkpoint is there."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
import torch

from spotchange.errors import ModelError
from spotchange.files import recover_folder
from spotchange.training import checkpoints
from spotchange.training.checkpoints import load_state, replace_folder, save_state


class Died(BaseException):
    """Stands for the power cut."""


def content(folder: Path) -> str:
    return (folder / "content").read_text()


def write(text: str):
    return lambda folder: (folder / "content").write_text(text)


def test_a_new_folder_takes_the_place_of_the_old(tmp_path: Path) -> None:
    last = tmp_path / "last"
    replace_folder(last, write("one"))
    replace_folder(last, write("two"))
    assert content(last) == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


@pytest.mark.parametrize("cut", range(1, 8))
def test_death_at_any_file_operation_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    last = tmp_path / "last"
    replace_folder(last, write("old"))
    operations = 0

    def dying(function):
        def wrapped(*arguments, **options):
            nonlocal operations
            operations += 1
            if operations == cut:
                raise Died
            return function(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", dying(os.fsync))
        patch.setattr(Path, "rename", dying(Path.rename))
        patch.setattr(shutil, "rmtree", dying(shutil.rmtree))
        with contextlib.suppress(Died):
            replace_folder(last, write("new"))
    recover_folder(last)
    assert content(last) in ("old", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_fill_that_fails_keeps_the_old(tmp_path: Path) -> None:
    last = tmp_path / "last"
    replace_folder(last, write("old"))

    def fail(folder: Path) -> None:
        (folder / "content").write_text("half")
        raise ValueError("disk full")

    with pytest.raises(ValueError, match="disk full"):
        replace_folder(last, fail)
    recover_folder(last)
    assert content(last) == "old"


def test_state_round_trip_and_damage(tmp_path: Path) -> None:
    save_state(tmp_path, {"step": 3, "weights": torch.arange(4.0), "random": [{"cpu": torch.get_rng_state()}]})
    assert load_state(tmp_path)["step"] == 3
    file = tmp_path / checkpoints.STATE_FILE
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ModelError, match="damaged"):
        load_state(tmp_path)
    file.unlink()
    with pytest.raises(ModelError, match="no training state"):
        load_state(tmp_path)
