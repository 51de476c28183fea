"""`spotchange compare`: folders as visual-regression users have them, reports, exit codes, baselines."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.errors import InputError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights: what it says means nothing, and it says "changed" of every pair at threshold 0."""
    import torch

    from spotchange.config.model import ModelSettings
    from spotchange.language.vocabulary import build_tokenizer
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.vision.preprocess import Preprocessor
    from spotchange.models.weights.folder import save_model

    tokenizer = build_tokenizer()
    settings = settings_for(ModelSettings.model_validate({"preset": "spotchange-tiny"}), tokenizer)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(
        folder,
        model=build_model(settings),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=Preprocessor(image_size=settings.vision.image_size),
    )
    return folder


def draw(path: Path, color: str, size: tuple[int, int] = (96, 64)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", size, "gray")
    ImageDraw.Draw(picture).rectangle((10, 10, 40, 40), fill=color)
    picture.save(path)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "main", tmp_path / "branch"
    draw(before / "same.png", "red")
    draw(after / "same.png", "red")
    draw(before / "pages/home & <b>.png", "red")
    draw(after / "pages/home & <b>.png", "blue", size=(96, 80))
    draw(before / "gone.png", "green")
    draw(after / "fresh.png", "green")
    # The same pixels in another file: identical all the same.
    draw(before / "packed.png", "white")
    Image.open(before / "packed.png").save(after / "packed.png", compress_level=0)
    return before, after


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["compare", *map(str, arguments), "--device", "cpu"])


def compare(folders: tuple[Path, Path], model: Path, *more: Any) -> Any:
    return run(*folders, "--model", model, "--threshold", "0", *more)


def test_every_picture_has_its_status(folders: tuple[Path, Path], model: Path) -> None:
    done = compare(folders, model, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert {each["id"]: each["status"] for each in told["files"]} == {
        "pages/home & <b>.png": "changed",
        "gone.png": "missing",
        "fresh.png": "new",
        "same.png": "identical",
        "packed.png": "identical",
    }
    changed = told["files"][0]
    assert changed["status"] == "changed"
    assert changed["caption"]
    assert changed["regions"]
    assert told["counts"] == {"changed": 1, "missing": 1, "new": 1, "failed": 0, "unchanged": 0, "identical": 2}


def test_other_pixels_without_a_change_are_unchanged(folders: tuple[Path, Path], model: Path) -> None:
    done = run(*folders, "--model", model, "--threshold", "1", "--json")
    assert json.loads(done.stdout)["counts"]["unchanged"] == 1


def test_ignored_rectangles(folders: tuple[Path, Path], model: Path) -> None:
    draw(folders[1] / "pages/home & <b>.png", "blue")
    counts = json.loads(compare(folders, model, "--ignore", "5,5,40,40", "--json").stdout)["counts"]
    assert counts["changed"] == 0
    assert counts["identical"] == 3
    assert json.loads(compare(folders, model, "--ignore", "60,0,10,10", "--json").stdout)["counts"]["changed"] == 1


def test_exit_codes(folders: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    assert compare(folders, model).exit_code == 0
    assert compare(folders, model, "--fail-on-change").exit_code == 1
    same = tmp_path / "same"
    draw(same / "same.png", "red")
    draw(tmp_path / "copy/same.png", "red")
    # Nothing differs, so no model is needed at all.
    assert run(same, tmp_path / "copy", "--model", tmp_path / "none", "--fail-on-change").exit_code == 0


class Page(HTMLParser):
    """What a report holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_report_needs_nothing_else(folders: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    compare(folders, model, "--report", tmp_path / "out/report.html")
    text = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "pages/home & <b>.png" in page.words
    assert "main → branch" in page.words
    sliders = [tag for tag, attributes in page.tags if attributes.get("type") == "range"]
    assert len(sliders) == 1
    sources = [attributes[name] for _, attributes in page.tags for name in ("src", "href") if name in attributes]
    assert len(sources) >= 4
    assert all(source and source.startswith("data:image/") for source in sources)
    assert "http://" not in text
    assert "https://" not in text
    assert "Sizes differ" in page.words


def test_junit(folders: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    (folders[1] / "broken.png").write_bytes(b"no picture")
    draw(folders[0] / "broken.png", "red")
    done = compare(folders, model, "--junit", tmp_path / "out.xml")
    assert isinstance(done.exception, InputError)
    suite = ElementTree.parse(tmp_path / "out.xml").getroot().find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "3",
        "errors": "1",
    }
    kinds = {case.get("name"): [(part.tag, part.get("type")) for part in case] for case in suite}
    assert kinds["pages/home & <b>.png"] == [("failure", "changed")]
    assert kinds["gone.png"] == [("failure", "missing")]
    assert kinds["fresh.png"] == [("failure", "new")]
    assert kinds["broken.png"] == [("error", "unreadable")]
    assert kinds["same.png"] == []


def test_updating_the_baseline_accepts_the_changes(folders: tuple[Path, Path], model: Path) -> None:
    before, after = folders
    assert compare(folders, model, "--update-baseline").exit_code == 0
    assert not (before / "gone.png").exists()
    for name in ("fresh.png", "pages/home & <b>.png"):
        assert (before / name).read_bytes() == (after / name).read_bytes()
    again = compare(folders, model, "--fail-on-change", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["counts"]["identical"] == 4


def test_a_baseline_is_not_emptied_by_a_job_that_made_nothing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    before, _ = folders
    empty = tmp_path / "empty"
    empty.mkdir()
    kept = {path: path.read_bytes() for path in before.rglob("*.png")}
    done = run(before, empty, "--update-baseline")
    assert isinstance(done.exception, InputError)
    assert "would delete 4 pictures" in done.exception.message
    assert "--allow-delete" in str(done.exception.hint)
    assert {path: path.read_bytes() for path in before.rglob("*.png")} == kept
    assert run(before, empty, "--update-baseline", "--allow-delete").exit_code == 0
    assert list(before.rglob("*.png")) == []


def test_an_unreadable_picture_is_never_accepted(folders: tuple[Path, Path], model: Path) -> None:
    before, after = folders
    (after / "same.png").write_bytes(b"no picture")
    kept = {path: path.read_bytes() for path in before.rglob("*.png")}
    done = compare(folders, model, "--update-baseline")
    assert isinstance(done.exception, InputError)
    assert {path: path.read_bytes() for path in before.rglob("*.png")} == kept


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["main", "nowhere"], "is not a folder"),
        (["main", "main"], "two folders"),
        (["main", "main/inside"], "two folders"),
        (["empty", "void"], "no picture"),
        (["main", "branch", "--ignore", "1,2"], "is not x,y,width,height"),
        (["main", "branch", "--fail-on-change", "--update-baseline"], "contradict"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    draw(tmp_path / "main/a.png", "red")
    draw(tmp_path / "branch/a.png", "blue")
    for name in ("main/inside", "empty", "void"):
        (tmp_path / name).mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "spotchange", "compare", *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
