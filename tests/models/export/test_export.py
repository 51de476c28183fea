"""Export to ONNX: small models of every kind agree with torch, and nothing damaged is answered with."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch import nn

from spotchange.answering.runtimes.choose import start_runtime
from spotchange.answering.runtimes.interface import ModelRuntime
from spotchange.answering.runtimes.onnx_graphs import open_session
from spotchange.answering.runtimes.torch import TorchRuntime
from spotchange.config.model import ModelSettings
from spotchange.errors import ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.export.cpu import exact_products
from spotchange.models.export.graphs import graphs_of
from spotchange.models.export.layout import DECODER_STEP, ENCODER, MANIFEST
from spotchange.models.export.manifest import OnnxManifest
from spotchange.models.export.write import _exported, export_onnx
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import load_model, save_model

VIT: dict[str, Any] = {
    "image_size": [32, 48], "patch": 16, "width": 32, "heads": 2, "layers": 3, "output_width": 24,
}  # fmt: skip
RESNET: dict[str, Any] = {
    "backbone": "resnet", "resnet_depths": [1, 1, 1, 1], "resnet_channels": [8, 16, 24, 32],
    "image_size": [64, 96], "width": 32, "heads": 2, "output_width": 24, "layers": 0, "freeze_backbone": True,
}  # fmt: skip
TEXT: dict[str, Any] = {"encoder": False, "width": 24, "heads": 2, "layers": 2, "context": 16}
CAPTIONER: dict[str, Any] = {"width": 32, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
CROSS_MODAL: dict[str, Any] = {"width": 24, "heads": 2, "encoder_layers": 0, "decoder_layers": 2, "memory": "last"}


def settings_of(name: str) -> ModelSettings:
    values: dict[str, dict[str, Any]] = {
        "clip4idc": {"vision": VIT | {"n_inter": 1}, "text": TEXT, "captioner": CAPTIONER},
        "clip-ft": {"vision": VIT | {"n_inter": 0}, "text": TEXT, "captioner": CAPTIONER},
        "ft1": {"vision": VIT | {"n_inter": 0}, "text": TEXT, "captioner": CAPTIONER},
        "conventional": {"vision": RESNET, "text": TEXT, "captioner": CAPTIONER},
        "idc-pcl": {
            "vision": RESNET, "text": TEXT, "captioner": CROSS_MODAL,
            "heads": {"change": True, "change_types": ["none", "changed"]},
        },
    }  # fmt: skip
    return ModelSettings.model_validate({"architecture": name, **values[name]})


def write_folder(folder: Path, settings: ModelSettings, *, stored: str = "float16") -> Path:
    """A model whose random weights are large enough that sentences differ from pair to pair, in several shards."""
    torch.manual_seed(1)
    tokenizer: Tokenizer = build_tokenizer()
    model = build_model(settings, tokenizer)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "network" not in name:
                parameter.add_(0.15 * torch.randn_like(parameter))
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):  # as training leaves them: first ones change nothing
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2.0)
    save_model(
        folder,
        model=model,
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=preprocessor_for(settings),
        stored=stored,
        max_shard_bytes=60_000,
    )
    return folder


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest preset with both heads, exported."""
    settings = ModelSettings.model_validate({"preset": "spotchange-tiny", "text": {"encoder": False}})
    folder = write_folder(tmp_path_factory.mktemp("models") / "tiny", settings)
    export_onnx(folder)
    return folder


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    """The exported folder, to be damaged."""
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def images(count: int, seed: int = 0) -> list[Image.Image]:
    generator = np.random.default_rng(seed)
    return [Image.fromarray(generator.integers(0, 256, (40, 56, 3), dtype=np.uint8)) for _ in range(count)]


def open_runtime(folder: Path) -> ModelRuntime:
    """The folder's export on onnxruntime."""
    return start_runtime(folder, runtime="onnx", device="cpu", threads=1)()


def assert_same_answers(folder: Path) -> None:
    """Both runtimes, one pair and several, greedy and beam, with and without penalties."""
    ours, theirs = open_runtime(folder), TorchRuntime(load_model(folder))
    assert ours.card == theirs.card
    for pairs in (1, 3):
        before, after = images(pairs, 1), images(pairs, 2)
        mine, reference = ours.encode(before, after), theirs.encode(before, after)
        np.testing.assert_allclose(mine.heat, reference.heat, atol=1e-3)
        np.testing.assert_allclose(mine.features, reference.features, atol=1e-3)
        assert (mine.change_logits is None) == (reference.change_logits is None)
        if mine.change_logits is not None and reference.change_logits is not None:
            np.testing.assert_allclose(mine.change_logits, reference.change_logits, atol=1e-3)
        for options in (
            DecodingOptions(max_words=9),
            DecodingOptions(method="beam", beams=3, candidates=3, max_words=9),
            DecodingOptions(method="beam", beams=2, candidates=1, max_words=9, word_penalties=((5, 2.0), (9, 1.0))),
            DecodingOptions(max_words=500),  # more than the model has positions
        ):
            told, expected = ours.generate(mine, options), theirs.generate(reference, options)
            assert [[each.text for each in pair] for pair in told] == [
                [each.text for each in pair] for pair in expected
            ]
            np.testing.assert_allclose(
                [[each.score for each in pair] for pair in told],
                [[each.score for each in pair] for pair in expected],
                atol=1e-3,
            )


@pytest.mark.slow
def test_both_runtimes_answer_alike(exported: Path) -> None:
    assert_same_answers(exported)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clip4idc", "clip-ft", "ft1", "conventional", "idc-pcl"])
def test_every_architecture_exports_and_answers_alike(name: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / name, settings_of(name), stored="float32" if name == "clip-ft" else "float16")
    export_onnx(folder)
    assert_same_answers(folder)


@pytest.mark.slow
def test_weights_are_not_stored_twice_and_no_source_path_is_left(exported: Path) -> None:
    manifest = OnnxManifest.read(exported)
    assert manifest.largest_difference
    assert max(manifest.largest_difference.values()) < 1e-3
    assert {"torch", "onnx", "onnxruntime"} == set(manifest.versions)
    shards = {path.name for path in exported.glob("model*.safetensors")}
    assert len(shards) > 1
    assert set(manifest.sha256) == shards | {ENCODER, DECODER_STEP, "tokenizer.json", "preprocessor_config.json"}
    for name in (ENCODER, DECODER_STEP):
        graph = onnx.load(str(exported / name), load_external_data=False)
        external = [each for each in graph.graph.initializer if each.external_data]
        locations = {entry.value for each in external for entry in each.external_data if entry.key == "location"}
        assert locations <= shards
        embedded = sum(len(each.raw_data) for each in graph.graph.initializer if not each.external_data)
        assert embedded < 10_000
        assert str(Path(torch.__file__).parent.parent).encode() not in (exported / name).read_bytes()
        assert b".py" not in (exported / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", [ENCODER, DECODER_STEP, "model-00001", "tokenizer", "preprocessor_config"])
def test_a_flipped_byte_is_refused(copy: Path, name: str) -> None:
    path = next(copy.glob(f"{name}*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is damaged: its checksum is not the one in onnx"):
        open_runtime(copy)


@pytest.mark.slow
def test_what_is_missing_or_contradictory_is_refused_in_one_line(copy: Path) -> None:
    manifest = json.loads((copy / MANIFEST).read_text())

    def refused(match: str, **changes: Any) -> None:
        (copy / MANIFEST).write_text(json.dumps(manifest | changes))
        with pytest.raises(ModelError, match=match) as caught:
            open_runtime(copy)
        assert "\n" not in caught.value.message

    refused("features has shape", features=7)
    refused("scores has shape", vocabulary=81)
    refused("before has shape", image_size=[32, 48])
    refused("does not give the outputs", change_types=0)
    refused("change_logits has shape", change_types=3)
    refused(r"visual\.0\.keys has shape", visual_tokens=0)
    refused(r"past\.0\.keys has shape", past=[{"heads": 10**9, "head_width": 10**9} for _ in manifest["past"]])
    refused("opset", opset=0)
    refused("has no checksum of encoder.onnx", sha256={})
    refused("no file of the folder", sha256=manifest["sha256"] | {str(copy / ENCODER): "0"})
    refused("onnx.json is not valid", opset="new")
    (copy / MANIFEST).write_text("{")
    with pytest.raises(ModelError, match="not valid JSON"):
        open_runtime(copy)
    (copy / MANIFEST).write_text(json.dumps(manifest))
    (copy / ENCODER).unlink()
    with pytest.raises(ModelError, match=r"has no encoder\.onnx"):
        open_runtime(copy)


@pytest.mark.parametrize("pipe", [ENCODER, "model.safetensors"])
def test_a_pipe_in_a_file_s_place_is_refused_and_not_waited_for(pipe: str, tmp_path: Path) -> None:
    (tmp_path / ENCODER).write_bytes(b"")
    (tmp_path / pipe).unlink(missing_ok=True)
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(ModelError, match=f"has no {pipe}"):
        open_session(tmp_path / ENCODER, 1)


def test_a_model_without_a_captioner_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    settings = ModelSettings.model_validate(
        {"vision": VIT | {"n_inter": 1}, "text": TEXT | {"encoder": True}, "captioner": None}
    )
    folder = write_folder(tmp_path / "ranker", settings)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(ModelError, match="has no captioner"):
        export_onnx(folder)
    assert sorted(path.name for path in folder.iterdir()) == before


class Eigenvalues(nn.Module):
    """Something that ONNX has no operator for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x).real


def test_an_unsupported_model_or_operator_is_one_line() -> None:
    with pytest.raises(ModelError, match=r"^Eigenvalues has no ONNX export$"):
        graphs_of(Eigenvalues())
    with pytest.raises(ModelError, match=r"^this model cannot be exported to ONNX: .*eig") as refused:
        _exported(Eigenvalues(), (torch.eye(3),), None, ["x"], ["y"])
    assert "\n" not in str(refused.value)


@pytest.fixture(scope="module")
def eight_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same kind of model with its matrices in 8 bits, exported."""
    settings = ModelSettings.model_validate({"preset": "spotchange-tiny", "text": {"encoder": False}})
    folder = write_folder(tmp_path_factory.mktemp("models") / "eight", settings, stored="int8")
    export_onnx(folder)
    return folder


@pytest.mark.slow
def test_weights_of_eight_bits_are_multiplied_so_and_answer_alike(eight_bits: Path) -> None:
    manifest = OnnxManifest.read(eight_bits)
    assert manifest.precision == "int8"
    graph = onnx.load(str(eight_bits / ENCODER), load_external_data=False).graph
    matrices = [each for each in graph.initializer if each.data_type == onnx.TensorProto.INT8 and each.external_data]
    layers = ModelSettings.model_validate({"preset": "spotchange-tiny"}).vision.layers
    assert len(matrices) == 4 * layers  # of 8 bits, and they lie in the safetensors files
    operators = [node.op_type for node in graph.node]
    assert operators.count("MatMulIntegerToFloat") == operators.count("QGemm") == 4 * layers
    assert_same_answers(eight_bits)


@pytest.mark.slow
def test_products_are_the_same_on_a_cpu_without_dot_products(eight_bits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = images(2, 1), images(2, 2)
    fast = open_runtime(eight_bits).encode(before, after)
    monkeypatch.setattr(
        "spotchange.answering.runtimes.onnx_graphs.exact_products", lambda: ("session.x64quantprecision", "1")
    )
    exact = open_runtime(eight_bits).encode(before, after)
    np.testing.assert_array_equal(exact.heat, fast.heat)
    np.testing.assert_array_equal(exact.features, fast.features)


@pytest.mark.slow
def test_even_an_image_of_nothing_has_an_answer(eight_bits: Path) -> None:
    """All activations of a layer alike: there is no range to divide into steps."""
    black = [Image.new("RGB", (48, 32))]
    mine = open_runtime(eight_bits).encode(black, black)
    reference = TorchRuntime(load_model(eight_bits)).encode(black, black)
    np.testing.assert_allclose(mine.heat, reference.heat, atol=1e-3)


def test_exact_products_are_asked_for_unless_the_cpu_has_dot_products(tmp_path: Path) -> None:
    flags = tmp_path / "cpuinfo"
    for text, value in (("flags : avx2 avx512_vnni", "0"), ("flags : avx2 avx_vnni", "0"), ("flags : avx2", "1")):
        flags.write_text(text)
        assert exact_products(flags) == ("session.x64quantprecision", value)
    assert exact_products(tmp_path / "none")[1] == "1"
