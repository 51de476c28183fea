"""Weights in 8 bits: near what they were, the same wherever they are read, refused when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.errors import ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.export.equalise import equalise
from spotchange.models.weights.description import INDEX
from spotchange.models.weights.eight_bits import block_matrices, quantized, restored
from spotchange.models.weights.folder import LoadedModel, load_model, save_model

MATRIX = "encoder.backbone.blocks.0.feed_forward.inner.weight"


@pytest.fixture
def model() -> LoadedModel:
    """A tiny model with its text encoder."""
    torch.manual_seed(0)
    settings = ModelSettings.model_validate({"preset": "spotchange-tiny"})
    tokenizer = build_tokenizer()
    network = build_model(settings, tokenizer).eval()
    preprocessor = preprocessor_for(settings)
    return LoadedModel(
        model=network, settings=settings, tokenizer=tokenizer, preprocessor=preprocessor, folder=Path("tiny")
    )


def save(loaded: LoadedModel, folder: Path, stored: str) -> Path:
    save_model(
        folder,
        model=loaded.model,
        settings=loaded.settings,
        tokenizer=loaded.tokenizer,
        preprocessor=loaded.preprocessor,
        stored=stored,
    )
    return folder


def test_matrices_of_the_encoder_come_back_to_half_a_step_and_the_rest_as_in_half_precision(
    model: LoadedModel, tmp_path: Path
) -> None:
    small, half = save(model, tmp_path / "small", "int8"), save(model, tmp_path / "half", "float16")
    names = block_matrices(model.model)
    assert len(names) == 4 * model.settings.vision.layers
    assert MATRIX in names
    stored = load_file(small / "model.safetensors")
    assert {name for name, value in stored.items() if value.dtype == torch.int8} == set(names)
    assert {value.dtype for name, value in stored.items() if name.endswith(".scale")} == {torch.float32}
    original, expected, loaded = model.model.state_dict(), load_model(half), load_model(small)
    for name, value in loaded.model.state_dict().items():
        if name in names:
            step = original[name].abs().amax(dim=1, keepdim=True) / 127
            assert ((value - original[name]).abs() <= 0.5001 * step).all(), name
            assert not torch.equal(value, original[name])
        else:
            assert torch.equal(value, expected.model.state_dict()[name]), name
    again = load_model(save(loaded, tmp_path / "again", "int8"))  # 8 bits of 8 bits are the same 8 bits
    for name, value in again.model.state_dict().items():
        assert torch.allclose(value, loaded.model.state_dict()[name], rtol=1e-6, atol=0), name


def test_a_row_of_zeros_stays_zero() -> None:
    matrix = torch.tensor([[0.0, 0.0], [2.54, -1.27]])
    state = quantized({"a": matrix, "b": matrix}, ["a"])
    assert state["a"].tolist() == [[0, 0], [127, -64]]
    assert state["b"] is matrix
    assert torch.allclose(restored(state, source="here")["a"], torch.tensor([[0.0, 0.0], [2.54, -1.28]]))


def test_a_model_without_blocks_has_nothing_to_quantize() -> None:
    with pytest.raises(ModelError, match="no transformer blocks in its encoder"):
        block_matrices(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lambda state: state.pop(MATRIX + ".scale"), "its scale .* is missing"),
        (lambda state: state.pop(MATRIX), "is the scale of nothing"),
        (lambda state: state.update({MATRIX + ".scale": state[MATRIX + ".scale"][1:].clone()}), "has shape"),
        (lambda state: state[MATRIX + ".scale"].__setitem__(3, float("nan")), "numbers that are no scale"),
        (lambda state: state[MATRIX + ".scale"].neg_(), "numbers that are no scale"),
        (lambda state: state.update({MATRIX: state[MATRIX].float()}), "is no matrix of 8 bits"),
        (lambda state: state.update({"words.positions.scale": torch.ones(48)}), "is no matrix of 8 bits"),
    ],
)
def test_damaged_or_contradictory_scales_are_refused_in_one_line(
    model: LoadedModel,
    tmp_path: Path,
    harm: object,
    complaint: str,
) -> None:
    folder = save(model, tmp_path / "small", "int8")
    state: dict[str, Tensor] = load_file(folder / "model.safetensors")
    assert callable(harm)
    harm(state)
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ModelError, match="checksum"):
        load_model(folder)
    (folder / INDEX).unlink()  # nobody's checksum stands in the way
    with pytest.raises(ModelError, match=complaint) as caught:
        load_model(folder)
    assert "\n" not in caught.value.message


def test_equalising_changes_weights_and_no_answer(model: LoadedModel) -> None:
    network = model.model
    for parameter in network.parameters():  # some channels louder than others
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    images = [torch.randn(2, 3, *model.settings.vision.image_size) for _ in range(2)]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.no_grad():
        expected = network.encode(*images).tokens  # type: ignore[operator]
        equalise(model)
        assert torch.equal(network.encode(*images).tokens, expected)  # type: ignore[operator]
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert MATRIX in changed
    assert not any(name.startswith(("text_encoder", "captioner", "words")) for name in changed)
