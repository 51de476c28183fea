"""Weights in, from every layout, and what is said about files that are not what they should be."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from typer.testing import CliRunner

from spotchange.cli.models import app
from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError, SpotchangeError
from spotchange.models.weights.folder import load_model
from spotchange.models.weights.published.expected_layout import captioner_shapes, clip_shapes, pair_shapes
from spotchange.models.weights.published.importing import import_model

SETTINGS = ModelSettings.model_validate(
    {
        "vision": {"image_size": [64, 64], "patch": 16, "width": 128, "heads": 2, "layers": 4, "output_width": 32},
        "text": {"width": 64, "heads": 1, "layers": 2, "context": 20},
        "captioner": {"width": 64, "heads": 1, "encoder_layers": 2, "decoder_layers": 2},
    }
)


def random_weights(shapes: dict[str, tuple[int, ...]], prefix: str = "") -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(len(prefix))
    return {prefix + name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


@pytest.fixture
def clip() -> dict[str, Tensor]:
    return random_weights(clip_shapes(SETTINGS))


@pytest.fixture
def clip4idc() -> dict[str, Tensor]:
    """A small checkpoint in the published layout, tied names included."""
    assert SETTINGS.captioner is not None
    state = random_weights(clip_shapes(SETTINGS) | pair_shapes(SETTINGS), "clip.")
    state |= random_weights(captioner_shapes(SETTINGS.captioner, 49408), "decoder.")
    state["decoder.embeddings.word_embeddings.weight"] = state["clip.token_embedding.weight"]
    state["decoder.classifier.cls.predictions.decoder.weight"] = state["clip.token_embedding.weight"]
    state["decoder.embeddings.position_embeddings.weight"] = state["clip.positional_embedding"]
    return state


def save(state: object, path: Path) -> Path:
    torch.save(state, path)
    return path


def check_encoder(path: Path, clip: dict[str, Tensor], activation: str | None = None) -> None:
    imported = import_model(path, activation=activation)
    weight = imported.model.encoder.inter[0].attention.query_key_value.weight  # block 3 of 4
    torch.testing.assert_close(weight, clip["visual.transformer.resblocks.3.attn.in_proj_weight"])
    torch.testing.assert_close(imported.model.encoder.projection.weight, clip["visual.proj"].T)
    assert imported.settings.vision.image_size == (64, 64)
    assert imported.settings.captioner is None


def test_open_clip_training_checkpoint(clip: dict[str, Tensor], tmp_path: Path) -> None:
    wrapped = {"epoch": 3, "state_dict": {f"module.{name}": value for name, value in clip.items()}}
    check_encoder(save(wrapped, tmp_path / "epoch_3.pt"), clip, activation="gelu")


def test_open_clip_safetensors_with_config(clip: dict[str, Tensor], tmp_path: Path) -> None:
    text = ("transformer.", "token_embedding", "positional_embedding", "ln_final", "text_projection")
    newer = {f"text.{name}" if name.startswith(text) else name: value for name, value in clip.items()}
    path = tmp_path / "open_clip_model.safetensors"
    save_file(newer, path)
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": {"quick_gelu": False}}))
    check_encoder(path, clip)
    assert import_model(path).settings.vision.activation == "gelu"


def test_open_clip_folder(clip: dict[str, Tensor], tmp_path: Path) -> None:
    save(clip, tmp_path / "open_clip_pytorch_model.bin")
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": {"quick_gelu": True}}))
    check_encoder(tmp_path, clip)
    assert import_model(tmp_path, resize="crop").preprocessor.resize == "crop"


def test_unknown_activation_must_be_told(clip: dict[str, Tensor], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="activation"):
        import_model(save(clip, tmp_path / "clip.pt"))


def test_openai_script_archive(clip: dict[str, Tensor], tmp_path: Path) -> None:
    class Node(nn.Module):
        pass

    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    root = Root()
    for name, value in clip.items():
        *path, last = name.split(".")
        node: nn.Module = root
        for part in path:
            if part not in dict(node.named_children()):
                node.add_module(part, Node())
            node = node.get_submodule(part)
        node.register_parameter(last, nn.Parameter(value))
    root.register_buffer("input_resolution", torch.tensor(64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(root).save(str(tmp_path / "ViT.pt"))
    check_encoder(tmp_path / "ViT.pt", clip)
    assert import_model(tmp_path / "ViT.pt").settings.vision.activation == "quick_gelu"


def test_published_captioning_and_adaptation(clip4idc: dict[str, Tensor], tmp_path: Path) -> None:
    full = import_model(save(clip4idc, tmp_path / "full.bin"))
    assert full.settings.captioner == SETTINGS.captioner
    head = full.model.captioner.decoder[1]
    torch.testing.assert_close(
        head.cross.key_value.weight[64:], clip4idc["decoder.decoder.layer.1.enc_attn.att.value.weight"]
    )
    adapted = {name: value for name, value in clip4idc.items() if name.startswith("clip.")}
    ranker = import_model(save(adapted, tmp_path / "adapted.bin"))
    assert ranker.settings.captioner is None
    torch.testing.assert_close(ranker.model.encoder.before_vector, clip4idc["clip.visual.bef_embedding"])


def test_new_weights_are_seeded_and_size_can_change(clip: dict[str, Tensor], tmp_path: Path) -> None:
    path = save(clip, tmp_path / "clip.pt")
    one, two = (import_model(path, activation="gelu", image_size=(96, 64)).model for _ in range(2))
    assert torch.equal(one.encoder.joint_positions, two.encoder.joint_positions)
    assert one.encoder.backbone.positions.shape == (1 + 6 * 4, 128)


def test_command_line(clip4idc: dict[str, Tensor], tmp_path: Path) -> None:
    path, out = save(clip4idc, tmp_path / "full.bin"), tmp_path / "out"
    result = CliRunner().invoke(app, ["import", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    loaded = load_model(out)
    torch.testing.assert_close(loaded.model.words.words.weight, clip4idc["clip.token_embedding.weight"])
    shown = CliRunner().invoke(app, ["show", str(out), "--json"])
    assert json.loads(shown.stdout)["parameters"] == sum(each.numel() for each in loaded.model.parameters())
    again = CliRunner().invoke(app, ["import", str(path), "--out", str(out)])
    assert isinstance(again.exception, InputError)
    assert "--force" in str(again.exception.hint)
    assert CliRunner().invoke(app, ["import", str(path), "--out", str(out), "--force"]).exit_code == 0
    listed = CliRunner().invoke(app, ["list", "--json"])
    assert "spotchange-small" in json.loads(listed.stdout)


def without(state: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key: value for key, value in state.items() if key != name}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s: without(s, "clip.visual.ln_mid.weight"), "missing: clip.visual.ln_mid.weight"),
        (lambda s: without(s, "clip.visual.conv1.weight"), "visual.conv1.weight missing"),
        (
            lambda s: without(s, "decoder.decoder.layer.1.enc_attn.att.key.bias"),
            "missing: decoder.decoder.layer.1.enc_attn.att.key.bias",
        ),
        (lambda s: without(s, "decoder.embeddings.LayerNorm.weight"), "missing: decoder.embeddings.LayerNorm.weight"),
        (
            lambda s: s | {"clip.visual.joint_positional_embedding": torch.zeros(10, 128)},
            r"clip.visual.joint_positional_embedding is \[10, 128\] instead of \[34, 128\]",
        ),
        (lambda s: s | {"clip.visual.strange": torch.zeros(3)}, "unknown: clip.visual.strange"),
        (lambda s: {"weight": torch.zeros(2)}, "not a CLIP vision transformer"),
        (lambda s: {"epoch": 3}, "no weights by name"),
    ],
)
def test_wrong_content_is_named_and_nothing_written(
    clip4idc: dict[str, Tensor], tmp_path: Path, change: object, complaint: str
) -> None:
    path, out = save(change(clip4idc), tmp_path / "wrong.bin"), tmp_path / "out"
    with pytest.raises(ModelError, match=complaint):
        CliRunner().invoke(app, ["import", str(path), "--out", str(out)], catch_exceptions=False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["wrong.bin"]


class Harmful:
    """What a hostile pickle does: call something on loading."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("harm"),)


def test_truncated_hostile_and_absent_files(clip: dict[str, Tensor], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = save(clip, tmp_path / "clip.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    (tmp_path / "text.bin").write_text("hello")
    (tmp_path / "hostile.bin").write_bytes(pickle.dumps({"a": Harmful()}))
    save({"a": Harmful()}, tmp_path / "hostile.pt")
    for name in ("cut.pt", "cut.safetensors", "text.bin", "hostile.bin", "hostile.pt", "nothing.pt"):
        with pytest.raises(SpotchangeError) as caught:
            import_model(tmp_path / name)
        assert name in caught.value.message
        assert "\n" not in caught.value.message
    assert not (tmp_path / "harm").exists()


def test_one_file_of_a_transformers_folder_points_to_the_folder(tmp_path: Path) -> None:
    path = save({"vision_model.embeddings.class_embedding": torch.zeros(3)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="transformers"):
        import_model(path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match="not a CLIP model"):
        import_model(tmp_path)
