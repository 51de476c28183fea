"""`spotchange models` writes where it was told to, and over nothing that was not its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.errors import InputError


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
