"""Every system of the table is a model folder like any other: it captions, is evaluated, served and exported."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient
from test_systems import SMALL

import spotchange
from spotchange.cli.export import export
from spotchange.config.model import ModelSettings
from spotchange.errors import ModelError
from spotchange.evaluation import EvaluationOptions, evaluate
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.baselines.build import SYSTEMS
from spotchange.models.build import build_model, preprocessor_for, settings_for
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import load_model, save_model
from spotchange.serving.app import Service
from spotchange.serving.settings import ServerSettings

CHANNELS = [8, 8, 32]  # of a ResNet of three stages
PAIRS = 3


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pairs of coloured noise, one of them without a change."""
    folder = tmp_path_factory.mktemp("data") / "test"
    folder.mkdir()
    noise = np.random.default_rng(4).integers(0, 256, (2 * PAIRS, 50, 70, 3), dtype=np.uint8)
    rows = []
    for number in range(PAIRS):
        names = [f"{number}_{side}.png" for side in ("before", "after")]
        for name, pixels in zip(names, noise[2 * number : 2 * number + 2], strict=True):
            Image.fromarray(pixels).save(folder / name)
        told = ["there is no change"] if number == 2 else ["the red cube is gone", "a cube is missing"]
        row = {"id": str(number), "before_file_name": names[0], "after_file_name": names[1], "captions": told}
        rows.append(json.dumps(row | {"change_type": "none" if number == 2 else "drop"}))
    (folder / "metadata.jsonl").write_text("\n".join(rows) + "\n")
    return folder.parent


def saved(name: str, folder: Path) -> Path:
    """A system with random weights, on a random network and an odd grid."""
    torch.manual_seed(2)
    known = set(inspect.signature(SYSTEMS[name]).parameters) - {"max_words"}  # that one follows from the settings
    settings = ModelSettings.model_validate(
        {
            "preset": "baseline",
            "vision": {"image_size": [48, 80], "resnet_depths": [1, 1, 1], "resnet_channels": CHANNELS},
            "text": {"context": 13},
            "baseline": {"system": name, "sizes": {key: v for key, v in SMALL.items() if key in known}},
        }
    )
    tokenizer = build_tokenizer()
    settings = settings_for(settings, tokenizer)
    model = build_model(settings)
    save_model(folder, model=model, settings=settings, tokenizer=tokenizer, preprocessor=preprocessor_for(settings))
    return folder


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_a_model_like_any_other(name: str, data_set: Path, tmp_path: Path) -> None:
    export(
        [str(saved(name, tmp_path / "run"))], out=tmp_path / "copy", stored="float32", to="safetensors", shard_mib=15
    )
    captioner = spotchange.load(tmp_path / "copy", device="cpu")
    files = [tuple(str(data_set / "test" / f"{n}_{side}.png") for side in ("before", "after")) for n in range(PAIRS)]
    together = [result.caption for result in captioner.caption_many(files)]
    assert together == [captioner.caption(*pair).caption for pair in files]  # a pair alone is a pair in company

    options = EvaluationOptions(split="test", device="cpu", batch_size=2, meteor=False)
    found = evaluate(str(tmp_path / "copy"), data_set, options)
    assert [output.caption for output in found.systems[0].answered.outputs] == together

    service = Service(captioner.answerer, ServerSettings(page=False))
    with TestClient(service.app, base_url="http://127.0.0.1:8000") as client:
        sent = {side: Path(path).read_bytes() for side, path in zip(("before", "after"), files[0], strict=True)}
        response = client.post("/v1/caption", files=sent)
    service.close()
    assert response.status_code == 200
    assert response.json()["caption"] == together[0]


@pytest.mark.parametrize("name", ["duda", "scorer", "dirl-ccr", "rel-att", "chg2cap"])
def test_words_that_a_program_never_chooses(name: str, tmp_path: Path) -> None:
    """SCORER, DIRL and Rel-Att ban the unknown word, DUDA an end at once; nobody bans anything else."""
    loaded = load_model(saved(name, tmp_path / "run"))
    model, words = loaded.model, loaded.settings.vocabulary
    scores = next(each for each in reversed(list(model.modules())) if getattr(each, "out_features", 0) == words.size)
    state = model.encode(*torch.rand(2, PAIRS, 3, 48, 80))

    def said(likely: int | None) -> set[int]:
        with torch.no_grad():
            scores.bias.zero_()
            scores.bias[likely] = 1e4
        return set(model.generate(state, DecodingOptions(max_words=4)).ids.flatten().tolist())

    assert (said(words.unknown) == {words.unknown}) == (name in ("duda", "chg2cap"))
    assert words.unknown not in said(words.unknown) or name in ("duda", "chg2cap")
    assert (said(words.end) == {words.pad}) == (name != "duda")


def test_graphs_of_a_system_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = saved("duda", tmp_path / "run")
    with pytest.raises(ModelError, match="has no ONNX export"):
        export([str(folder)], to="onnx", stored="float16", shard_mib=15)
    with pytest.raises(ModelError, match="has no ONNX export"):
        export([str(folder)], out=tmp_path / "copy", to="onnx", stored="float16", shard_mib=15)
    assert not list(folder.glob("*.onnx"))
    assert not (tmp_path / "copy").exists()
