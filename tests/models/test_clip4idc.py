"""Shapes, counts and promises of the models, whatever their weights."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.config.presets import PRESETS
from spotchange.errors import ConfigError, ModelError
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.transformers_import import import_transformers


def count(settings: ModelSettings) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build_model(settings).parameters())


def preset(name: str, **changes: dict) -> ModelSettings:
    return ModelSettings.model_validate({"preset": name, **changes})


def test_parameter_counts_of_the_paper() -> None:
    # Vision encoder, captioner and shared embeddings, without the text transformer.
    assert count(preset("clip4idc", text={"encoder": False})) == 135_648_768
    assert round(count(preset("clip-ft")) / 1e6, 2) == 135.57


def test_shipped_model_fits() -> None:
    assert 2 * count(preset("spotchange-small", text={"encoder": False})) <= 48 * 2**20


def test_the_start_of_the_ablations_fits() -> None:
    assert 2 * count(preset("scene-clip")) <= 24 * 2**20  # committed once, in fp16


SIZES = {
    "clip4idc": 173_740_545,
    "clip4idc-first": 202_209_793,
    "clip-ft": 135_570_432,
    "ft1": 173_400_064,
    "ft2": 145_028_608,
    "conventional": 73_238_336,
    "idc-pcl": 109_966_148,
    "idc-pcl-pretrain": 110_232_900,
    "idc-pcl-resnet50": 90_974_020,
    "idc-pcl-clip": 154_739_716,
    "clip-vit-b16": 172_309_761,
    "clip-vit-l14": 478_408_961,
    "spotchange-small": 27_851_880,
    "scene-clip": 12_498_945,
    "scene-clip4idc": 18_145_617,
    "scene-idc-pcl": 14_156_374,
    "spotchange-everyday": 10_147_331,
    "spotchange-tiny": 458_792,
}


def test_every_preset_has_its_size_here() -> None:
    assert set(SIZES) == set(PRESETS) - {"baseline"}  # which is nothing without a system


@pytest.mark.parametrize("name", SIZES)
def test_presets_keep_their_size(name: str) -> None:
    """Saved models and published counts depend on it."""
    assert count(preset(name)) == SIZES[name]


@pytest.mark.parametrize("architecture", ["clip4idc", "clip-ft", "ft1", "ft2", "conventional"])
def test_every_architecture_keeps_the_interface(architecture: str, make_model: Callable, images: Callable) -> None:
    model = make_model(architecture, heads={"change": True, "patch_change": True})
    before, after = images(model, 3)
    state = model.encode(before, after)
    rows, columns = state.grid
    width = model.encoder.norm.normalized_shape[0]
    assert state.tokens.shape == (3, 2 * (1 + rows * columns), 32)
    assert state.extras["intra"].shape == state.extras["inter"].shape == (3, 2, rows * columns, width)
    assert len(state.features) == len(state) == 3
    assert model.change_logits(state).shape == (3, 6)
    assert model.patch_change_logits(state).shape == (3, 2, rows * columns)
    heat = model.heatmap(state)
    assert heat.shape == (3, 2, rows, columns)
    assert ((heat >= 0) & (heat <= 1)).all()
    ids = torch.tensor([[1, 5, 6]] * 3)
    model.train()
    model.caption_logits(state, ids).mean().backward()
    model.eval()
    generated = model.generate(state, DecodingOptions(max_words=6))
    assert generated.ids.shape == (3, 1, 6)


def test_after_vector_and_order_matter(make_model: Callable, images: Callable) -> None:
    for architecture in ("clip4idc", "clip-ft"):
        model = make_model(architecture)
        before, after = images(model, 2)
        forth, back = model.encode(before, after), model.encode(after, before)
        half = forth.tokens.shape[1] // 2
        assert not torch.allclose(forth.tokens[:, :half], back.tokens[:, half:], atol=1e-2)


def test_second_image_is_seen_by_inter_blocks_only(make_model: Callable, images: Callable) -> None:
    model = make_model()
    before, after = images(model, 1)
    first, second = model.encode(before, after), model.encode(before, after + 1)
    torch.testing.assert_close(first.extras["intra"][:, 0], second.extras["intra"][:, 0])
    assert not torch.allclose(first.extras["inter"][:, 0], second.extras["inter"][:, 0], atol=1e-3)


def test_attention_heat_map_is_the_last_inter_blocks(make_model: Callable, images: Callable) -> None:
    """Against attention written out by hand over the whole sequence."""
    model = make_model()
    before, after = images(model, 2)
    state = model.encode(before, after)
    block, x = model.encoder.inter[-1], state.extras["last_input"]
    queries, keys, _ = block.attention.query_key_value(block.attention_norm(x)).chunk(3, dim=-1)
    split = [each.unflatten(-1, (2, 32)).transpose(1, 2) for each in (queries, keys)]
    weights = (split[0] @ split[1].transpose(-1, -2) / 32**0.5).softmax(-1).mean(1)
    expected = torch.stack([weights[:, 0, 1:7], weights[:, 7, 8:14]], dim=1).unflatten(-1, (2, 3))
    torch.testing.assert_close(model.class_attention(state), expected)
    torch.testing.assert_close(model.heatmap(state), expected / expected.amax((1, 2, 3), keepdim=True))


def test_grid_backbone_with_inter_layers(make_settings: Callable, tiny_resnet: dict, images: Callable) -> None:
    settings = make_settings("clip4idc", vision=tiny_resnet | {"layers": 2, "n_inter": 2, "stem": "clip"})
    model = build_model(settings).eval()
    assert isinstance(model, Clip4idc)
    before, after = images(model, 2)
    state = model.encode(before, after)
    assert state.grid == (2, 3)
    assert len(model.encoder.inter) == 2
    assert model.heatmap(state).shape == (2, 2, 2, 3)


def test_grid_weights_are_read_or_refused(make_settings: Callable, tiny_resnet: dict, tmp_path: Path) -> None:
    transformers = import_transformers()
    config = transformers.ResNetConfig(
        depths=[1] * 4, hidden_sizes=[16, 32, 48, 64], downsample_in_bottleneck=True, out_features=["stage4"]
    )
    original = transformers.ResNetModel(config)
    original.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"rescale_factor": 1.0, "image_mean": [127.5, 0, 0], "image_std": [1, 1, 1]}'
    )
    source = {"resnet": str(tmp_path), "resnet_stride_first": True}
    settings = make_settings("conventional", vision=source)
    model = build_model(settings).eval()
    pixels = torch.randn(2, 3, 64, 96)
    cells = model.encoder.backbone.network(pixels).feature_maps[-1]
    torch.testing.assert_close(cells, original.eval()(pixels).last_hidden_state)
    assert preprocessor_for(settings).mean[0] == 0.5
    with pytest.raises(ModelError, match="cannot read a ResNet"):
        build_model(make_settings("conventional", vision=source | {"resnet": str(tmp_path / "none")}))
    with pytest.raises(ModelError, match="resnet"):
        build_model(make_settings("conventional", vision=source | {"resnet_depths": [1, 2, 1, 1]}))


def test_a_part_of_a_network_is_read_without_a_list_of_the_rest(make_settings: Callable, tmp_path: Path) -> None:
    sizes = {"resnet_depths": [1, 1, 1], "resnet_channels": [16, 32, 48], "resnet_stage": 3}
    transformers = import_transformers()
    transformers.ResNetModel(transformers.ResNetConfig(depths=[1] * 4, hidden_sizes=[16, 32, 48, 64])).save_pretrained(
        tmp_path
    )
    settings = make_settings("conventional", vision={**sizes, "resnet": str(tmp_path)})
    program = (
        "import sys; from spotchange.config.model import ModelSettings; from spotchange.models.build import build_model"
    )
    program += "; build_model(ModelSettings.model_validate_json(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, settings.model_dump_json()], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


def test_frozen_backbone_does_not_move(make_settings: Callable) -> None:
    model = build_model(make_settings("conventional")).train()
    network = model.encoder.backbone.network
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    before, after = torch.randn(2, 2, 3, 64, 96)
    model.caption_logits(model.encode(before, after), torch.tensor([[1, 5]] * 2)).sum().backward()
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(kept[name], value) for name, value in network.state_dict().items())
    assert model.encoder.backbone.input.weight.grad is not None


@torch.no_grad()
def test_retrieval_embeddings_are_unit_length_and_ignore_padding(make_model: Callable, images: Callable) -> None:
    model = make_model()
    short = torch.tensor([[1, 7, 8, 2]])
    padded = torch.tensor([[1, 7, 8, 2, 0, 0]])
    one = model.embed_text(short, short != 0)
    torch.testing.assert_close(one, model.embed_text(padded, padded != 0))
    torch.testing.assert_close(one.norm(dim=-1), torch.ones(1))
    before, after = images(model, 2)
    torch.testing.assert_close(model.embed_pair(before, after).norm(dim=-1), torch.ones(2))


def test_missing_parts_say_so(make_settings: Callable, make_model: Callable, images: Callable) -> None:
    model = make_model(text={"encoder": False})
    with pytest.raises(ModelError, match="no text encoder"):
        model.embed_text(torch.tensor([[1, 2]]), torch.tensor([[True, True]]))
    settings = make_settings().model_copy(update={"captioner": None})
    ranker = build_model(settings)
    with pytest.raises(ModelError, match="no captioner"):
        ranker.generate(ranker.encode(*images(ranker, 1)), DecodingOptions())


def test_contradictory_settings_are_refused(make_settings: Callable) -> None:
    with pytest.raises(ConfigError, match="n_inter to 0"):
        build_model(make_settings("clip-ft", vision={"n_inter": 1}))
    for values, complaint in (
        ({"vision": {"image_size": [30, 48]}}, "multiple of patch"),
        ({"vision": {"n_inter": 99}}, "n_inter"),
        ({"captioner": {"encoder_layers": 1}}, "layerwise"),
        ({"preset": "huge"}, "unknown preset"),
        ({"heads": {"change_types": ["color"]}}, "none"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            ModelSettings.from_mapping(values, source="recipe")


@pytest.mark.parametrize("architecture", ["clip4idc", "ft1"])
def test_training_forward_is_one_graph(architecture: str, make_model: Callable, images: Callable) -> None:
    """No graph breaks: torch.compile sees the whole of encoding, heads and captioning."""
    model = make_model(architecture, heads={"change": True, "patch_change": True}).train()

    def forward(before: Tensor, after: Tensor, ids: Tensor) -> Tensor:
        state = model.encode(before, after)
        return (
            model.caption_logits(state, ids).sum()
            + model.change_logits(state).sum()
            + model.patch_change_logits(state).sum()
            + model.pair_embedding(state).sum()
        )

    before, after = images(model, 2)
    compiled = torch.compile(forward, fullgraph=True, backend="eager")
    compiled(before, after, torch.tensor([[1, 5, 6]] * 2)).backward()
    assert model.encoder.before_vector.grad is not None
