"""A published checkpoint becomes a model folder that says what the system says."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

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


def imported(tmp_path: Path, resnet: Path, name: str, content: object, *more: str) -> Any:
    """The model folder that the command line makes of a checkpoint."""
    torch.save(content, tmp_path / "snapshot.pt")
    (tmp_path / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))
    arguments = ["models", "import", str(tmp_path / "snapshot.pt"), "--system", name, "--image-size", "64x96", *more]
    arguments += ["--words", str(tmp_path / "vocab.json"), "--resnet", str(resnet), "--out", str(tmp_path / "model")]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    return load_model(tmp_path / "model")


def says_words(loaded: Any) -> None:
    images = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        made = loaded.model.generate(loaded.model.encode(images, images), DecodingOptions(max_words=4))
    assert set(loaded.decode(made.ids[0, 0].tolist()).split()) <= set(WORDS[4:])


def parts_of(state: dict[str, torch.Tensor], names: dict[str, str]) -> dict[str, dict[str, torch.Tensor]]:
    """As programs save them: by their names of parts, from ours."""
    return {
        theirs: {k.removeprefix(f"{ours}."): v for k, v in state.items() if k.startswith(f"{ours}.")}
        for theirs, ours in names.items()
    }


@pytest.fixture
def settings_of_a_program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What DUDA's program and those that came from it save beside the weights: a mapping of a class of their own."""
    module = types.ModuleType("utils.attr_dict")
    module.AttrDict = type("AttrDict", (dict,), {"__module__": "utils.attr_dict"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "utils", types.ModuleType("utils"))
    monkeypatch.setitem(sys.modules, "utils.attr_dict", module)
    made = module.AttrDict(seed=1111, model=module.AttrDict(dim=128))
    made.__dict__["__immutable__"] = False
    return made


@pytest.mark.parametrize(
    ("name", "sizes"), [("duda", {}), ("duda", {"hidden": 24, "word": 10}), ("scorer-cbr", {}), ("dirl-ccr", {})]
)
def test_parts_and_words_become_a_model_folder(
    name: str, sizes: dict[str, int], tmp_path: Path, resnet: Path, settings_of_a_program: Any
) -> None:
    torch.manual_seed(2)
    system = SYSTEMS[name](channels=32, grid=(4, 6), vocabulary=len(WORDS), **sizes).eval()
    state = system.state_dict()
    parts = parts_of(state, {f"{part}_state": part for part in ("change_detector", "speaker")})
    told = [word for size, number in sizes.items() for word in ("--size", f"{size}={number}")]
    loaded = imported(tmp_path, resnet, name, parts | {"model_cfg": settings_of_a_program}, *told)
    assert loaded.settings.vocabulary.begin == 2
    assert loaded.settings.vocabulary.end == (0 if name == "duda" else 3)
    found = loaded.model.system.state_dict()
    for key, value in state.items():
        if not key.startswith("cbr."):  # which no checkpoint holds
            torch.testing.assert_close(found[key], value)
    says_words(loaded)


def test_satellite_systems_bring_their_network(tmp_path: Path, resnet: Path) -> None:
    torch.manual_seed(2)
    system = SYSTEMS["chg2cap"](channels=32, grid=(2, 3), vocabulary=len(WORDS), pool=1).eval()
    parts = parts_of(system.state_dict(), {"encoder_trans_dict": "encoder", "decoder_dict": "decoder"})
    network = {"cnn.0.weight": torch.rand(64, 3, 7, 7), **norm("cnn.1", 64)}
    widths = [64, 8, 8, 32, 32]
    for stage in range(4):
        before, after, block = widths[stage], widths[stage + 1], f"cnn.{stage + 4}.0"
        inner = after // 4
        shapes = [(inner, before, 1, 1), (inner, inner, 3, 3), (after, inner, 1, 1)]
        for number, shape in enumerate(shapes, 1):
            network |= {f"{block}.conv{number}.weight": torch.rand(shape)} | norm(f"{block}.bn{number}", shape[0])
        network |= {f"{block}.downsample.0.weight": torch.rand(after, before, 1, 1)}
        network |= norm(f"{block}.downsample.1", after)
    loaded = imported(tmp_path, resnet, "chg2cap", parts | {"encoder_dict": network})
    torch.testing.assert_close(loaded.model.system.state_dict(), system.state_dict())
    own = loaded.model.encoder.network.state_dict()
    torch.testing.assert_close(own["embedder.embedder.convolution.weight"], network["cnn.0.weight"])
    last = own["encoder.stages.3.layers.0.layer.2.normalization.running_mean"]
    torch.testing.assert_close(last, network["cnn.7.0.bn3.running_mean"])
    says_words(loaded)


def norm(name: str, width: int) -> dict[str, torch.Tensor]:
    values = {kind: torch.rand(width) for kind in ("weight", "bias", "running_mean", "running_var")}
    return {f"{name}.{kind}": value for kind, value in (values | {"num_batches_tracked": torch.tensor(3)}).items()}


def test_rel_att_is_the_file_of_its_decoder(tmp_path: Path, resnet: Path) -> None:
    torch.manual_seed(2)
    system = SYSTEMS["rel-att"](channels=32, grid=(2, 3), vocabulary=len(WORDS), pool=1).eval()
    state = {name.removeprefix("decoder."): value for name, value in system.state_dict().items()}
    loaded = imported(tmp_path, resnet, "rel-att", state)
    torch.testing.assert_close(loaded.model.system.state_dict(), system.state_dict())
    says_words(loaded)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    assert list(published_state({"encoder": {"module.a": torch.ones(1), "x.pe": torch.ones(1)}, "epoch": 3}, {})) == [
        "encoder.a"
    ]
    (tmp_path / "words.json").write_text('{"<NULL>": 0, "the": 2}')
    with pytest.raises(ModelError, match="without gaps"):
        read_words(tmp_path / "words.json")
    with pytest.raises(ModelError, match="no pad, unknown, begin, end mark"):
        tokenizer_of({"the": 0}, padding_ends=True)
