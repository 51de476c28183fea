"""`spotchange models` writes where it was told to, and over nothing that was not its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from spotchange.answering import load
from spotchange.answering.calibration import FAMILIARITY_FILE, Familiarity, read_calibration
from spotchange.cli.main import app
from spotchange.errors import InputError, ModelError
from spotchange.models.weights.bundled import bundled_folder, everyday_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    preprocessor = Preprocessor(image_size=settings.vision.image_size)
    save_model(folder, model=build_model(settings), settings=settings, tokenizer=tokenizer, preprocessor=preprocessor)
    return folder


def export(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["models", "export", *map(str, arguments)])


def test_export_does_not_empty_a_folder(model: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "photos").mkdir(parents=True)
    (home / "diary.txt").write_text("dear diary")
    for more in ([], ["--force"]):
        done = export(model, "--out", home, *more)
        assert isinstance(done.exception, InputError), done.output
        assert "no part of a model" in done.exception.message
        assert (home / "diary.txt").read_text() == "dear diary"
        assert (home / "photos").is_dir()


def test_export_takes_the_calibration_with_its_file(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(model, source)
    features = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
    Familiarity.fit(features).save(source)
    (source / "calibration.json").write_text(json.dumps({"least_familiarity": 0.1}))
    assert export(source, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / FAMILIARITY_FILE).read_bytes() == (source / FAMILIARITY_FILE).read_bytes()
    assert read_calibration(tmp_path / "out")[1] is not None
    assert export(source, source, "--out", tmp_path / "mean").exit_code == 0
    assert not (tmp_path / "mean" / "calibration.json").exists()  # the mean of models is another model
    for file, other in ((FAMILIARITY_FILE, "calibration.json"), ("calibration.json", FAMILIARITY_FILE)):
        half = Path(shutil.copytree(tmp_path / "out", tmp_path / f"without {file}"))
        (half / file).unlink()
        with pytest.raises(ModelError, match=f"has a {other} but not the {file}"):
            load(half, device="cpu")


def test_export_in_eight_bits(model: Path, tmp_path: Path) -> None:
    half, small = tmp_path / "half", tmp_path / "small"
    assert export(model, "--out", half).exit_code == 0
    assert export(model, "--int8", "--out", small).exit_code == 0
    size = {each: (each / "model.safetensors").stat().st_size for each in (half, small)}
    assert size[small] < 0.8 * size[half]
    index = json.loads((small / "model.safetensors.index.json").read_text())
    assert any(name.endswith(".scale") for name in index["weight_map"])
    for arguments in ((model, "--int8"), (model, "--int8", "--to", "onnx"),
                      (model, "--int8", "--stored", "float32", "--out", tmp_path / "x")):  # fmt: skip
        refused = export(*arguments)
        assert isinstance(refused.exception, InputError), refused.output
        assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("ends", [ModelError("it does not agree with torch"), KeyboardInterrupt()])
@pytest.mark.parametrize("earlier", [False, True])
def test_an_export_that_ends_after_its_copy_leaves_what_was_there(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException, earlier: bool
) -> None:
    out, copies = tmp_path / "out", []
    if earlier:
        assert export(model, "--out", out).exit_code == 0
        (out / "README.md").write_text("mine")

    def end(folder: Path) -> None:
        copies.append(sorted(path.name for path in folder.iterdir()))
        raise ends

    monkeypatch.setattr("spotchange.models.export.write.export_onnx", end)
    assert export(model, "--out", out, "--to", "onnx", "--force").exit_code != 0
    assert "model.safetensors" in copies[0]
    assert list(tmp_path.iterdir()) == ([out] if earlier else [])
    assert not earlier or (out / "README.md").read_text() == "mine"


def test_export_writes_into_no_folder_but_the_users(model: Path, tmp_path: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in bundled_folder().iterdir()}
    refused = export("bundled", "--to", "onnx")
    assert isinstance(refused.exception, InputError), refused.output
    assert refused.exception.message == "bundled is no folder of yours to write into"
    assert refused.exception.hint == "write a copy: spotchange models export bundled --to onnx --out FOLDER"
    assert {path.name: path.stat().st_mtime_ns for path in bundled_folder().iterdir()} == before
    run = tmp_path / "run"
    shutil.copytree(model, run / "best")
    for into, more in ((run / "best", ()), (tmp_path / "copy", ("--out", tmp_path / "copy"))):
        done = export(run, "--to", "onnx", *more)
        assert done.exit_code == 0, done.output
        assert (into / "onnx.json").is_file()
        load(into, runtime="onnx", device="cpu")


def test_export_replaces_a_model_only_where_asked(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export(model, "--out", out).exit_code == 0
    (out / "README.md").write_text("mine")
    done = export(model, "--out", out)
    assert isinstance(done.exception, InputError)
    assert "--force" in str(done.exception.hint)
    assert (out / "README.md").read_text() == "mine"
    assert export(model, "--out", out, "--force").exit_code == 0
    assert not (out / "README.md").exists()
    (tmp_path / "file").write_text("x")
    assert isinstance(export(model, "--out", tmp_path / "file", "--force").exception, InputError)


def test_a_checkpoint_is_named_after_its_run_and_found_by_it(model: Path, tmp_path: Path) -> None:
    run = tmp_path / "small-caption"
    shutil.copytree(model, run / "best")
    for given in (run / "best", run):
        assert load(given, device="cpu").name == "small-caption"
    assert load(model, device="cpu").name == "tiny"


def test_of_an_everyday_model_only_the_score_is_calibrated(tmp_path: Path) -> None:
    folder, data = tmp_path / "model", tmp_path / "data" / "val"
    folder.mkdir()
    for file in everyday_folder().iterdir():
        if file.name != "calibration.json":
            (folder / file.name).symlink_to(file)
    (folder / "calibration.json").write_text(json.dumps({"noun_level": 0.7}))
    data.mkdir(parents=True)
    chance = np.random.default_rng(0)
    rows = []
    for number in range(3):
        image = Image.fromarray(chance.integers(0, 256, (48, 48, 3), np.uint8))
        image.save(data / f"{number}.png")
        rows.append(
            {"id": str(number), "before_file_name": "0.png", "after_file_name": f"{number}.png", "captions": ["x"]}
            | {"change_type": "replace" if number else "none"}
        )
    (data / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = CliRunner().invoke(app, ["models", "calibrate", str(folder), str(data.parent), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    assert "change accuracy" in done.output
    calibration, familiarity = read_calibration(folder)
    assert familiarity is None
    assert (calibration.noun_level, calibration.fitted_on) == (0.7, "data/val")
    assert json.loads((folder / "calibration.json").read_text())["reports"]["data/val"]["pairs"] == 3
    assert (folder / "reliability.svg").exists()


def test_the_everyday_model_ships_with_its_calibration() -> None:
    values = json.loads((everyday_folder() / "calibration.json").read_text(encoding="utf-8"))
    calibration, familiarity = read_calibration(everyday_folder())
    assert familiarity is None
    assert calibration.fitted_on
    assert all(report["expected_calibration_error"] < 0.02 for report in values["reports"].values())
