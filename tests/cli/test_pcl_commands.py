"""`data features` and `models align` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.config.model import ModelSettings
from spotchange.errors import SpotchangeError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.weights.folder import save_model

MODEL = {
    "preset": "idc-pcl-resnet50",
    "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 8, 8, 16], "image_size": [64, 96]},
    "text": {"width": 32, "context": 24},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 1},
    "heads": {"pretraining": True},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    stage = {"objective": {"kind": "pcl-pretrain"}, "steps": 1}
    path.write_text(yaml.safe_dump({"name": "tiny", "model": MODEL, "data": "stream", "stage": stage}))
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, SpotchangeError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_features_of_scenes(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "features"
    facts = json.loads(run("data", "features", str(recipe), "--out", str(out), "--scenes", "2", "--device", "cpu",
                           "--json"))  # fmt: skip
    assert (facts["pictures"], facts["rows"], facts["grid"]) == (6, 4, [2, 3])
    with pytest.raises(SpotchangeError, match="already holds features"):
        run("data", "features", str(recipe), "--out", str(out), "--scenes", "2", "--device", "cpu")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ((), "either --scenes or --data"),
        (("--scenes", "2", "--task", "colours"), "unknown task 'colours'"),
        (("--scenes", "2", "--set", "model.vision.freeze_backbone=false"), "frozen resnet"),
    ],
)
def test_bad_requests_for_features(recipe: Path, tmp_path: Path, extra: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpotchangeError, match=message):
        run("data", "features", str(recipe), "--out", str(tmp_path / "f"), "--device", "cpu", *extra)
    assert not (tmp_path / "f").exists()


def test_align_writes_an_image(tmp_path: Path) -> None:
    settings = ModelSettings.model_validate(MODEL)
    save_model(
        tmp_path / "model",
        model=build_model(settings, build_tokenizer()),
        settings=settings,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(settings),
    )
    for name, colour in (("before", "red"), ("after", "blue")):
        Image.new("RGB", (96, 64), colour).save(tmp_path / f"{name}.png")
    pair = (str(tmp_path / "before.png"), str(tmp_path / "after.png"))
    model = ("--model", str(tmp_path / "model"))
    run("models", "align", *pair, *model, "--out", str(tmp_path / "words.png"))
    with Image.open(tmp_path / "words.png") as figure:
        assert figure.height > 300
    with pytest.raises(SpotchangeError, match=r"must end in \.png"):
        run("models", "align", *pair, *model, "--out", str(tmp_path / "words.jpg"))
