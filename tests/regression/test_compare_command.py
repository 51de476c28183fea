"""`spotchange compare`: folders as visual-regression users have them, reports, exit codes, baselines."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from spotchange.answering import LoadOptions
from spotchange.cli.main import app
from spotchange.errors import InputError
from spotchange.regression.wording import Wording


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
    image = Image.new("RGB", size, "gray")
    ImageDraw.Draw(image).rectangle((10, 10, 40, 40), fill=color)
    image.save(path)


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
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def compare(folders: tuple[Path, Path], *more: Any) -> Any:
    return run(*folders, *more)


def counts(folders: tuple[Path, Path], *more: Any) -> dict[str, int]:
    return json.loads(compare(folders, "--json", *more).stdout)["counts"]


def test_every_image_has_its_status_without_a_model(folders: tuple[Path, Path]) -> None:
    done = compare(folders, "--json")
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
    assert changed["source"] == "pixels"
    assert changed["preset"] == "exact"
    assert changed["diff_pixels"] == 96 * 16 + 31 * 31  # the rows only one has, and the other rectangle
    assert changed["regions"]
    assert told["counts"] == {"changed": 1, "missing": 1, "new": 1, "failed": 0, "unchanged": 0, "identical": 2}


def test_one_pixel_is_a_change_unless_a_tolerance_says_otherwise(folders: tuple[Path, Path]) -> None:
    image = Image.open(folders[0] / "same.png")
    image.putpixel((90, 60), (129, 128, 128))
    image.save(folders[1] / "same.png")
    include = ("--include", "same.png")
    assert counts(folders, *include)["changed"] == 1
    assert counts(folders, *include, "--max-diff-pixels", "1")["unchanged"] == 1
    assert counts(folders, *include, "--max-diff-ratio", "0.001")["unchanged"] == 1
    assert counts(folders, *include, "--pixel-threshold", "0.05")["unchanged"] == 1
    assert counts(folders, *include, "--preset", "tolerant")["unchanged"] == 1


def test_ignored_rectangles(folders: tuple[Path, Path]) -> None:
    draw(folders[1] / "pages/home & <b>.png", "blue")
    assert counts(folders, "--ignore", "5,5,40,40")["changed"] == 0
    assert counts(folders, "--ignore", "60,0,10,10")["changed"] == 1


def test_rules_of_the_settings_file_hold_for_names_that_match(folders: tuple[Path, Path], tmp_path: Path) -> None:
    draw(folders[1] / "pages/home & <b>.png", "blue")
    settings = tmp_path / "mine.yaml"
    settings.write_text("compare:\n  rules:\n    - {match: 'pages/*', ignore: [[5, 5, 40, 40]]}\n")
    assert counts(folders, "--config", settings)["changed"] == 0
    settings.write_text("compare:\n  rules:\n    - {match: 'other/*', ignore: [[5, 5, 40, 40]]}\n")
    assert counts(folders, "--config", settings)["changed"] == 1
    settings.write_text("compare:\n  max_diff_ratio: 1.0\n")
    assert counts(folders, "--config", settings)["unchanged"] == 1
    assert counts(folders, "--config", settings, "--max-diff-ratio", "0")["changed"] == 1  # the command line wins


def test_a_model_words_what_the_pixels_decided(folders: tuple[Path, Path], model: Path) -> None:
    draw(folders[1] / "pages/home & <b>.png", "blue")
    (changed,) = [
        each
        for each in json.loads(compare(folders, "--json", "--model", model, "--device", "cpu").stdout)["files"]
        if each["status"] == "changed"
    ]
    assert changed["changed"]
    assert changed["diff_pixels"] == 31 * 31
    assert changed["source"] in ("model", "pixels")  # random weights may see no change: then the pixels speak


def test_json_lines_come_one_per_image(folders: tuple[Path, Path]) -> None:
    lines = [json.loads(line) for line in compare(folders, "--json-lines").stdout.splitlines()]
    assert sorted(line["id"] for line in lines) == sorted(
        ["pages/home & <b>.png", "gone.png", "fresh.png", "same.png", "packed.png"]
    )


def test_diff_images_mark_what_differs(folders: tuple[Path, Path], tmp_path: Path) -> None:
    draw(folders[1] / "pages/home & <b>.png", "blue")
    compare(folders, "--diff-dir", tmp_path / "diff")
    image = Image.open(tmp_path / "diff/pages/home & <b>.png")
    assert image.getpixel((20, 20)) == (255, 0, 60)
    assert image.getpixel((80, 50)) != (255, 0, 60)
    assert sorted(path.name for path in (tmp_path / "diff").rglob("*.png")) == ["home & <b>.png"]


def test_the_summary_for_a_pull_request(folders: tuple[Path, Path], tmp_path: Path) -> None:
    compare(folders, "--markdown", tmp_path / "summary.md")
    text = (tmp_path / "summary.md").read_text()
    assert "1 changed, 1 missing, 1 new" in text
    assert "home & \\<b\\>" in text
    assert "| gone\\.png | missing |" in text


def test_many_pairs_run_in_processes_and_keep_their_order(tmp_path: Path) -> None:
    for number in range(20):
        draw(tmp_path / f"a/{number:02}.png", "red")
        draw(tmp_path / f"b/{number:02}.png", "blue" if number % 3 == 0 else "red")
        if number % 3 != 0:
            Image.open(tmp_path / f"a/{number:02}.png").save(tmp_path / f"b/{number:02}.png", compress_level=0)
    told = json.loads(run(tmp_path / "a", tmp_path / "b", "--json", "--workers", "2").stdout)
    assert told["counts"]["changed"] == 7
    assert told["counts"]["identical"] == 13
    assert [each["id"] for each in told["files"][:7]] == [f"{number:02}.png" for number in range(0, 20, 3)]


def test_what_flickers_is_learnt_and_then_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, color in enumerate(("red", "green", "blue")):
        draw(tmp_path / f"captures/run{number}/home.png", color)
    Path("spotchange.yaml").write_text("compare:\n  rules: [{match: 'x.png', preset: tolerant}]\n")
    done = run("ignored", "--learn-ignore", "captures", "--json")
    assert done.exit_code == 0, done.output
    ((x, y, width, height),) = json.loads(done.stdout)["home.png"]
    assert x <= 10 <= 40 <= x + width
    assert y <= 10 <= 40 <= y + height
    assert "tolerant" in Path("spotchange.yaml").read_text()
    draw(tmp_path / "a/home.png", "red")
    draw(tmp_path / "b/home.png", "purple")
    assert json.loads(run("a", "b", "--json").stdout)["counts"]["identical"] == 0
    assert json.loads(run("a", "b", "--json").stdout)["counts"]["unchanged"] == 1


def test_exit_codes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    assert compare(folders).exit_code == 0
    assert compare(folders, "--fail-on-change").exit_code == 1
    same = tmp_path / "same"
    draw(same / "same.png", "red")
    draw(tmp_path / "copy/same.png", "red")
    # Nothing differs, so no model is needed at all.
    assert run(same, tmp_path / "copy", "--model", tmp_path / "none", "--fail-on-change").exit_code == 0
    draw(tmp_path / "copy/more.png", "red")
    assert run(same, tmp_path / "copy", "--fail-on-change").exit_code == 1


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


def test_the_report_needs_nothing_else(folders: tuple[Path, Path], tmp_path: Path) -> None:
    compare(folders, "--report", tmp_path / "out/report.html")
    text = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "pages/home & <b>.png" in page.words
    assert "main → branch" in page.words
    sliders = [tag for tag, attributes in page.tags if attributes.get("type") == "range"]
    assert len(sliders) == 1
    sources = [attributes["src"] for _, attributes in page.tags if "src" in attributes]
    assert len(sources) >= 4
    assert all(source and source.startswith("data:image/") for source in sources)
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    full = [link for link in links if link and not link.startswith("#")]
    assert [(tmp_path / "out" / link).is_file() for link in full] == [True] * 3
    assert any(link and link.startswith("#pages/home") for link in links)
    assert "http://" not in text
    assert "https://" not in text


def test_junit(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (folders[1] / "broken.png").write_bytes(b"no image")
    draw(folders[0] / "broken.png", "red")
    done = compare(folders, "--junit", tmp_path / "out.xml")
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


def test_updating_the_baseline_accepts_the_changes(folders: tuple[Path, Path]) -> None:
    before, after = folders
    assert compare(folders, "--update-baseline").exit_code == 0
    assert not (before / "gone.png").exists()
    for name in ("fresh.png", "pages/home & <b>.png"):
        assert (before / name).read_bytes() == (after / name).read_bytes()
    again = compare(folders, "--fail-on-change", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["counts"]["identical"] == 4


def test_only_what_is_named_is_approved(folders: tuple[Path, Path]) -> None:
    before, after = folders
    assert compare(folders, "--update-baseline", "--only", "pages/*").exit_code == 0
    assert (before / "gone.png").exists()
    assert not (before / "fresh.png").exists()
    changed = "pages/home & <b>.png"
    assert (before / changed).read_bytes() == (after / changed).read_bytes()


def test_a_baseline_is_not_emptied_by_a_job_that_made_nothing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    before, _ = folders
    empty = tmp_path / "empty"
    empty.mkdir()
    kept = {path: path.read_bytes() for path in before.rglob("*.png")}
    done = run(before, empty, "--update-baseline")
    assert isinstance(done.exception, InputError)
    assert "would delete 4 images" in done.exception.message
    assert "--allow-delete" in str(done.exception.hint)
    assert {path: path.read_bytes() for path in before.rglob("*.png")} == kept
    assert run(before, empty, "--update-baseline", "--allow-delete").exit_code == 0
    assert list(before.rglob("*.png")) == []


def test_an_unreadable_image_is_never_accepted(folders: tuple[Path, Path]) -> None:
    before, after = folders
    (after / "same.png").write_bytes(b"no image")
    kept = {path: path.read_bytes() for path in before.rglob("*.png")}
    done = compare(folders, "--update-baseline")
    assert isinstance(done.exception, InputError)
    assert {path: path.read_bytes() for path in before.rglob("*.png")} == kept


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["main", "nowhere"], "is not a folder"),
        (["main", "main"], "two folders"),
        (["main", "main/inside"], "two folders"),
        (["empty", "void"], "no image"),
        (["main", "branch", "--ignore", "1,2"], "is not x,y,width,height"),
        (["main", "branch", "--fail-on-change", "--update-baseline"], "contradict"),
        (["main"], "two folders are needed"),
        (["main", "branch", "--only", "a*"], "--update-baseline"),
        (["main", "branch", "--include", "b*"], "no image"),
        (["main", "branch", "--config", "nothing.yaml"], "cannot read"),
        (["main", "branch", "--learn-ignore", "empty"], "captured twice"),
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


def test_the_model_that_words_is_loaded_as_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("spotchange.regression.wording.load", lambda model, **options: given.update(options))
    options = LoadOptions(device="cpu", threads=1, runtime="onnx", model_options={"prompt": "plain"})
    Wording(model="bundled", options=options).start()
    assert given == asdict(options)
