"""No reader ever meets half a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from spotchange.errors import InputError
from spotchange.files import atomic_path, write_bytes, write_text


def test_a_failure_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    write_text(target, "old")

    def interrupted() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_parents_are_made_and_the_suffix_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b.png"
    with atomic_path(target) as temporary:
        assert temporary.suffix == ".png"
        temporary.write_bytes(b"x")
    assert target.read_bytes() == b"x"


def test_results_are_readable_by_others(tmp_path: Path) -> None:
    write_bytes(tmp_path / "x", b"1")
    plain = tmp_path / "y"
    plain.write_bytes(b"1")
    assert (tmp_path / "x").stat().st_mode == plain.stat().st_mode


def test_an_impossible_place_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path / "file" / "x", "text")
