"""No verb writes a result over what it was given, or over a file that is no earlier result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, colour in (("before", "red"), ("after", "blue")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (32, 24), colour).save(tmp_path / name / "shot.png")
    (tmp_path / "diary.txt").write_text("dear diary")
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PAIR = ("before/shot.png", "after/shot.png")


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ("compare", "before", "after", option, name)
            for option in ("--report", "--junit", "--markdown")
            for name in ("diary.txt", "before/shot.png")
        ),
        ("compare", "before", "after", "--diff-dir", "before"),
        ("compare", "before", "after", "--diff-dir", "after"),
        ("compare", "before", "after", "--diff-dir", "after/../after/below"),
        ("models", "attention", *PAIR, "--out", "before/shot.png"),
        ("models", "align", *PAIR, "--model", "bundled", "--out", "after/shot.png"),
        ("caption", *PAIR, "--model", "pixels", "--heatmap", "after/shot.png"),
        ("evaluate", "pixels", "before", "--report", "diary.txt"),
        ("leaderboard", "before", "--html", "diary.txt"),
        ("data", "preview", "before", "--out", "before/shot.png"),
        ("data", "preview", "before", "--out", "diary.txt"),
    ],
    ids=" ".join,
)
def test_nothing_of_the_users_is_written_over(folder: Path, arguments: tuple[str, ...]) -> None:
    before = content(folder)
    done = run(*arguments)
    assert isinstance(done.exception, InputError), done.output
    assert arguments[-2] in done.exception.message
    assert content(folder) == before


def test_an_earlier_result_is_replaced(folder: Path) -> None:
    outputs = {"--report": "report.html", "--junit": "report.xml", "--markdown": "report.md"}
    options = [part for pair in outputs.items() for part in pair]
    (folder / "report.md").touch()  # as the summary of a job is given, empty
    for colour in ("blue", "green"):
        Image.new("RGB", (32, 24), colour).save(folder / "after" / "shot.png")
        assert run("compare", "before", "after", *options).exit_code == 0
        assert all(colour in (folder / name).read_text() for name in outputs.values())


@pytest.mark.parametrize("verb", ["compare", "evaluate"])
def test_a_folder_in_place_of_a_result_is_told_before_anything_is_computed(tmp_path: Path, verb: str) -> None:
    done = CliRunner().invoke(app, [verb, str(tmp_path / "absent"), str(tmp_path), "--out", str(tmp_path)])
    assert str(done.exception) == f"--out {tmp_path} is a folder"
