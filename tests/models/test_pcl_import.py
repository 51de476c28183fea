"""Published IDC-PCL checkpoints through the command line: words, network, and what is said about wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from spotchange.cli.models import app
from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError, SpotchangeError
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions
from spotchange.models.vision.resnet import resnet
from spotchange.models.weights.folder import load_model
from spotchange.models.weights.published.importing import import_model
from spotchange.models.weights.published.pcl_layout import published_shapes, settings_of

WORDS = ["<PAD>", "<BOS>", "<EOS>", "<UNK>", "<CLS>", "<MASK>", "the", "cube", "moved", "nothing", "changed"]


def checkpoint(
    *, judge: bool = True, width: int = 64, channels: int = 32, inner: int | None = None
) -> dict[str, Tensor]:
    """A small checkpoint in the published layout."""
    settings: dict[str, Any] = {
        "captioner": {"width": width, "decoder_layers": 2},
        "difference": {"single_layers": 1, "pair_layers": 1},
        "pcl": {"inner": inner},
        "heads": {"change": judge, "pretraining": not judge, "classes": None},
        "vocabulary": {"size": len(WORDS)},
        "vision": {"resnet_channels": [8, 8, 8, channels]},
    }
    draw = torch.Generator().manual_seed(4)
    return {name: torch.randn(shape, generator=draw) for name, shape in published_shapes(settings).items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    torch.save({"state_dict": checkpoint()}, tmp_path / "idc_pcl.pt")
    return tmp_path / "idc_pcl.pt"


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, ["import", *arguments])
    if isinstance(result.exception, SpotchangeError):
        raise result.exception
    assert result.exit_code == 0, result.output


def test_through_the_command_line_with_words(file: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.json"
    words.write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))
    run(str(file), "--out", str(tmp_path / "model"), "--words", str(words))
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.model, IdcPcl)
    assert loaded.tokenizer.encode("the cube flew").ids == [1, 6, 7, 3, 2]
    assert loaded.decode([9, 10, 2]) == "nothing changed"
    assert (loaded.model.words.class_id, loaded.model.words.mask_id) == (4, 5)
    cells = torch.rand(1, 2, 49, 32)
    with torch.inference_mode():
        state = loaded.model.encode(cells[:, 0], cells[:, 1])
        assert loaded.model.generate(state, DecodingOptions(max_words=4)).ids.shape == (1, 1, 4)
        with pytest.raises(ModelError, match="reads grid features, not images"):
            loaded.model.encode(torch.zeros(1, 3, 224, 224), torch.zeros(1, 3, 224, 224))


def test_sizes_are_read_from_the_weights_and_heads_are_told(tmp_path: Path) -> None:
    torch.save(checkpoint(width=60, channels=24, inner=36), tmp_path / "odd.pt")
    with pytest.raises(ModelError, match="width of 60 does not divide into 8 heads"):
        import_model(tmp_path / "odd.pt")
    run(str(tmp_path / "odd.pt"), "--out", str(tmp_path / "model"), "--heads", "5")
    loaded = load_model(tmp_path / "model")
    assert loaded.settings.captioner.heads == 5
    assert loaded.model.captioner.blocks[0].feed_forward.inner.weight.shape == (36, 60)
    state = loaded.model.encode(*torch.rand(2, 1, 49, 24))
    assert loaded.model.caption_logits(state, torch.tensor([[1, 6, 7]])).isfinite().all()


def test_with_its_network_it_reads_images(tmp_path: Path) -> None:
    network = resnet(depths=(1, 1, 1, 1), channels=(8, 8, 8, 32), stage=4, stride_first=True, pretrained=None)
    network.config.save_pretrained(tmp_path / "resnet")
    network.save_pretrained(tmp_path / "resnet")
    torch.save(checkpoint(), tmp_path / "idc_pcl.pt")
    values = settings_of(checkpoint(), source="x")
    assert values["vision"]["resnet_channels"][-1] == 32
    run(str(tmp_path / "idc_pcl.pt"), "--out", str(tmp_path / "model"), "--resnet", str(tmp_path / "resnet"))
    loaded = load_model(tmp_path / "model")
    assert loaded.settings.vision.resnet_stride_first
    assert loaded.model.encode(torch.zeros(1, 3, 224, 224), torch.zeros(1, 3, 224, 224)).tokens.shape == (1, 100, 64)


def test_all_that_is_wrong_is_listed(file: Path, tmp_path: Path) -> None:
    state = checkpoint()
    del state["encoder.layers.1.attn.k_linear.bias"]
    state["surplus.weight"] = torch.zeros(2)
    state["output_layer.bias"] = torch.zeros(3)
    torch.save(state, tmp_path / "bad.pt")
    with pytest.raises(
        ModelError, match=r"missing: encoder\.layers\.1\.attn\.k_linear\.bias.*output_layer\.bias.*surplus"
    ):
        import_model(tmp_path / "bad.pt")
    few = tmp_path / "few.txt"
    few.write_text("a\nb\n")
    with pytest.raises(InputError, match="has 2 words, but the checkpoint 11"):
        import_model(file, words=few)
    torch.save({"clip.x": torch.zeros(1)}, tmp_path / "clip.pt")
    with pytest.raises(InputError, match="not an IDC-PCL checkpoint"):
        import_model(tmp_path / "clip.pt", words=few)


def test_a_pretraining_checkpoint_hands_over_to_fine_tuning(tmp_path: Path) -> None:
    torch.save(checkpoint(judge=False), tmp_path / "pretrained.pt")
    imported = import_model(tmp_path / "pretrained.pt")
    assert imported.settings.heads.pretraining
    assert not imported.settings.heads.change
    assert ModelSettings.model_validate(imported.settings.model_dump()) == imported.settings
