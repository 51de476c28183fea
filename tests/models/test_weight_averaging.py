"""The mean of several models, and models that have none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.config.model import ModelSettings
from spotchange.errors import InputError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, settings_for
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.folder import load_model, save_model
from spotchange.models.weights.transfer import average


def make(folder: Path, seed: int, **captioner: int) -> Path:
    torch.manual_seed(seed)
    tokenizer = build_tokenizer()
    settings = settings_for(
        ModelSettings.model_validate({"preset": "spotchange-tiny", "captioner": captioner}), tokenizer
    )
    save_model(
        folder,
        model=build_model(settings),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=Preprocessor(image_size=settings.vision.image_size),
    )
    return folder


def test_every_weight_is_the_mean(tmp_path: Path) -> None:
    folders = [make(tmp_path / str(seed), seed) for seed in (1, 2, 3)]
    states = [load_model(folder).model.state_dict() for folder in folders]
    mixed = average(folders).model.state_dict()
    for name, value in mixed.items():
        torch.testing.assert_close(value, sum(state[name] for state in states) / 3)
    done = CliRunner().invoke(app, ["models", "export", *map(str, folders), "--out", str(tmp_path / "mean")])
    assert done.exit_code == 0, done.output
    exported = load_model(tmp_path / "mean").model.state_dict()
    torch.testing.assert_close(exported["encoder.before_vector"], mixed["encoder.before_vector"], atol=1e-3, rtol=1e-3)


def test_models_of_other_shape_are_refused(tmp_path: Path) -> None:
    folders = [make(tmp_path / "one", 1), make(tmp_path / "other", 1, decoder_layers=3)]
    with pytest.raises(InputError, match="different settings"):
        average(folders)
