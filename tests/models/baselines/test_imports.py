"""A published checkpoint becomes a model folder that says what the system says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from spotchange.cli.main import app
from spotchange.errors import ModelError
from spotchange.models.baselines.build import SYSTEMS
from spotchange.models.baselines.imports import published_state, read_words, tokenizer_of
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import load_model
from spotchange.models.weights.transformers_import import import_transformers

WORDS = ["<NULL>", "<UNK>", "<START>", "<END>", "the", "red", "cube", "moved"]


@pytest.fixture
def resnet(tmp_path: Path) -> Path:
    transformers = import_transformers()
    config = transformers.ResNetConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 32, 32])
    torch.manual_seed(1)
    transformers.ResNetModel(config).save_pretrained(tmp_path / "resnet")
    return tmp_path / "resnet"


@pytest.mark.parametrize("name", ["duda", "dirl-ccr"])
def test_parts_and_words_become_a_model_folder(name: str, tmp_path: Path, resnet: Path) -> None:
    torch.manual_seed(2)
    system = SYSTEMS[name](channels=32, grid=(4, 6), vocabulary=len(WORDS)).eval()
    state = system.state_dict()
    parts = {
        f"{part}_state": {k.removeprefix(f"{part}."): v for k, v in state.items() if k.startswith(f"{part}.")}
        for part in ("change_detector", "speaker")
    }
    torch.save(parts | {"model_cfg": {"seed": 1111}}, tmp_path / "snapshot.pt")
    (tmp_path / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))
    arguments = ["models", "import", str(tmp_path / "snapshot.pt"), "--system", name, "--image-size", "64x96"]
    arguments += ["--words", str(tmp_path / "vocab.json"), "--resnet", str(resnet), "--out", str(tmp_path / "model")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    loaded = load_model(tmp_path / "model")
    assert loaded.settings.vocabulary.begin == 2
    assert loaded.settings.vocabulary.end == (0 if name == "duda" else 3)
    torch.testing.assert_close(loaded.model.system.state_dict(), state)
    images = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        made = loaded.model.generate(loaded.model.encode(images, images), DecodingOptions(max_words=4))
    assert set(loaded.decode(made.ids[0, 0].tolist()).split()) <= set(WORDS[4:])


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    assert list(published_state({"encoder": {"module.a": torch.ones(1), "x.pe": torch.ones(1)}, "epoch": 3})) == [
        "encoder.a"
    ]
    (tmp_path / "words.json").write_text('{"<NULL>": 0, "the": 2}')
    with pytest.raises(ModelError, match="without gaps"):
        read_words(tmp_path / "words.json")
    with pytest.raises(ModelError, match="no pad, unknown, begin, end mark"):
        tokenizer_of({"the": 0}, padding_ends=True)
