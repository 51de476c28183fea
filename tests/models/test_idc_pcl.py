"""IDC-PCL: who sees whom, decoding by [MASK], frozen backbone, and every interface that other models have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from spotchange.answering import load
from spotchange.config.model import ModelSettings
from spotchange.config.presets import PRESETS
from spotchange.errors import ConfigError, ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.cross_modal import everyone_sees_words, words_see_back, words_see_back_beside_masks
from spotchange.models.explain.attention import alignment_figure, word_alignment
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.interface import DecodingOptions
from spotchange.models.weights.folder import load_model, save_model
from spotchange.models.weights.transfer import take_weights

TINY: dict[str, Any] = {
    "preset": "idc-pcl-resnet50",
    "vision": {"resnet_depths": [1, 1, 1, 1], "resnet_channels": [16, 32, 48, 64], "image_size": [64, 96]},
    "text": {"width": 32, "context": 16},
    "captioner": {"width": 32, "heads": 2, "decoder_layers": 2},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0, "mask": 4, "class_mark": 5},
}
VIT: dict[str, Any] = {
    "preset": "idc-pcl-clip",
    "vision": {"image_size": [32, 48], "patch": 16, "width": 32, "heads": 2, "layers": 2, "n_inter": 1},
}


def lively(changes: dict[str, Any] | None = None) -> IdcPcl:
    """A model whose random weights are large enough that words differ from pair to pair."""
    torch.manual_seed(0)
    model = build_model(ModelSettings.model_validate(TINY | (changes or {})))
    assert isinstance(model, IdcPcl)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "network" not in name:
                # Words start a hundred times as large as what is seen of an image.
                size = 4.0 if "words.cells" in name else 0.2
                parameter.add_(size * torch.randn_like(parameter))
    return model.eval()


def images(model: IdcPcl, pairs: int = 3) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(5)
    before, after = torch.randn(2, pairs, 3, *model.image_size, generator=draw)
    return before, after


def test_masks_by_hand() -> None:
    cpu = torch.device("cpu")
    # one image token, then two words
    assert words_see_back(1, 2, cpu).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    # one image token, two words, two [MASK]s: the i-th sees words up to i and itself
    assert words_see_back_beside_masks(1, 2, cpu).int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 1, 1, 0, 1],
    ]
    seen = everyone_sees_words(2, torch.tensor([[True, False]]))
    assert seen.int().tolist() == [[[[1, 1, 1, 1, 0]]]]


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_cached_decoding_gives_the_scores_of_whole_sentences(method: str) -> None:
    model = lively()
    state = model.encode(*images(model))
    options = DecodingOptions(method=method, beams=3 if method == "beam" else 1, max_words=10, min_words=6)
    generated = model.generate(state, options)
    words = generated.ids[:, 0].clone()  # made in inference mode
    begun = torch.cat([torch.full((len(words), 1), model.special.begin), words], dim=1)
    scores = model.caption_logits(state, begun[:, :-1]).log_softmax(dim=-1).gather(2, words[..., None])[..., 0]
    counted = torch.arange(10) < generated.lengths - 1  # the end token is not among the ids
    assert len({tuple(row) for row in words.tolist()}) > 1
    assert torch.allclose(scores[counted], generated.log_probabilities[:, 0][counted], atol=1e-4)


def test_one_pair_alone_gives_what_it_gives_in_a_batch() -> None:
    model = lively()
    before, after = images(model)
    together = model.generate(model.encode(before, after), DecodingOptions(max_words=8)).ids
    alone = [model.generate(model.encode(before[i : i + 1], after[i : i + 1]), DecodingOptions(max_words=8)).ids
             for i in range(3)]  # fmt: skip
    assert torch.equal(together, torch.cat(alone))


def test_later_words_never_reach_earlier_ones_nor_the_images() -> None:
    model = lively()
    state = model.encode(*images(model))
    ids = torch.randint(8, 80, (3, 6))
    changed = ids.clone()
    changed[:, 4:] = 9
    mask = torch.ones_like(ids, dtype=torch.bool)
    first, second = (model.read_causally(state, each) for each in (ids, changed))
    kept = state.tokens.shape[1] + 4
    assert torch.allclose(first[:, :kept], second[:, :kept], atol=1e-6)
    assert not torch.allclose(first[:, kept:], second[:, kept:], atol=1e-3)
    free = [model.read_together(state, each, mask) for each in (ids, changed)]
    assert not torch.allclose(free[0][:, 0], free[1][:, 0], atol=1e-4)


def test_padding_is_seen_unless_switched_off() -> None:
    model, published = lively({"pcl": {"see_padding": False}}), lively()
    state = model.encode(*images(model))
    ids = torch.randint(8, 80, (3, 6))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 4:] = False
    other = ids.clone()
    other[:, 4:] = 30
    kept = state.tokens.shape[1] + 1 + 4
    first, second = (model.read_together(state, each, mask)[:, :kept] for each in (ids, other))
    assert torch.allclose(first, second, atol=1e-6)
    first, second = (published.read_together(state, each, mask)[:, :kept] for each in (ids, other))
    assert not torch.allclose(first, second, atol=1e-4)


def test_frozen_eyes_get_no_gradient_and_keep_their_statistics() -> None:
    model = lively().train()
    statistics = {name: value.clone() for name, value in model.encoder.state_dict().items()}
    logits = model.change_logits(model.encode(*images(model)))
    assert logits is not None
    logits.sum().backward()
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    assert model.words.cells.weight.grad is not None
    assert all(torch.equal(value, statistics[name]) for name, value in model.encoder.state_dict().items())


def test_end_to_end_the_eyes_learn() -> None:
    model = lively({"vision": TINY["vision"] | {"freeze_backbone": False}}).train()
    model.caption_logits(model.encode(*images(model)), torch.ones(3, 4, dtype=torch.long)).sum().backward()
    first = next(iter(model.encoder.parameters()))
    assert first.grad is not None
    assert float(first.grad.abs().sum()) > 0


def test_without_the_difference_encoder_images_meet_in_the_cross_modal_layers_only() -> None:
    model = lively({"difference": {"single_layers": 0, "pair_layers": 0}})
    before, after = images(model)
    same = model.encode(before, before).tokens.chunk(2, dim=1)[0]
    assert torch.allclose(model.encode(before, after).tokens.chunk(2, dim=1)[0], same, atol=1e-6)
    whole = lively()
    same = whole.encode(before, before).tokens.chunk(2, dim=1)[0]
    assert not torch.allclose(whole.encode(before, after).tokens.chunk(2, dim=1)[0], same, atol=1e-3)


def test_one_image_alone_is_read_too() -> None:
    model = lively()
    cells = model.see(*images(model))[:, :1]
    state = model.encode_cells(cells)
    assert state.tokens.shape == (3, 8, 32)  # [IMG1], its cells, and [IMG2] alone
    ids = torch.randint(8, 80, (3, 5))
    hidden = model.read_together(state, ids, torch.ones_like(ids, dtype=torch.bool))
    assert hidden.shape[1] == 8 + 1 + 5
    assert torch.equal(model.image_outputs(hidden), hidden[:, [0, 7]])


def test_every_door_of_a_captioning_model() -> None:
    model = lively()
    state = model.encode(*images(model))
    heat = model.heatmap(state)
    assert state.tokens.shape == (3, 2 * (1 + 6), 32)
    assert heat.shape == (3, 2, 2, 3)
    assert torch.allclose(heat.amax(dim=(1, 2, 3)), torch.ones(3))
    logits = model.change_logits(state)
    assert logits is not None
    assert logits.shape == (3, 2)


def test_on_the_pair_encoder_of_clip4idc() -> None:
    settings = ModelSettings.model_validate(TINY | VIT)
    model = build_model(settings)
    assert isinstance(model, IdcPcl)
    state = model.eval().encode(*images(model))
    assert state.tokens.shape == (3, 2 * (1 + 6), 32)
    assert model.generate(state, DecodingOptions(max_words=4)).ids.shape == (3, 1, 4)
    # Names are those of CLIP4IDC's encoder, so that its and CLIP's weights find their places.
    assert "encoder.backbone.positions" in model.state_dict()


def test_takes_the_eyes_and_words_of_clip4idc() -> None:
    settings = ModelSettings.model_validate(TINY | VIT)
    other = build_model(settings.model_copy(update={"architecture": "clip4idc", "captioner": None}))
    model = build_model(settings)
    taken = take_weights(model, other.state_dict(), source="clip").taken
    assert torch.equal(model.state_dict()["encoder.inter.0.attention.output.weight"],
                       other.state_dict()["encoder.inter.0.attention.output.weight"])  # fmt: skip
    assert "words.words.weight" in taken


def test_presets_have_the_papers_sizes() -> None:
    settings = ModelSettings.model_validate({"preset": "idc-pcl"})
    assert settings.captioner is not None
    assert (settings.captioner.width, settings.captioner.heads, settings.captioner.decoder_layers) == (512, 8, 3)
    assert settings.captioner.dropout == 0.2
    assert settings.vision.resnet_depths == (3, 4, 23, 3)
    assert settings.vision.grid == (7, 7)
    assert {"idc-pcl", "idc-pcl-resnet50", "idc-pcl-clip"} <= set(PRESETS)


def test_words_and_images_must_be_alike() -> None:
    with pytest.raises(ConfigError, match=r"model\.text\.width 16 must equal"):
        build_model(ModelSettings.model_validate(TINY | {"text": {"width": 16}}))


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    settings = ModelSettings.model_validate(TINY)
    save_model(
        tmp_path / "pcl",
        model=lively(),
        settings=settings,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(settings),
    )
    return tmp_path / "pcl"


@pytest.fixture
def photos() -> tuple[Image.Image, Image.Image]:
    chance = np.random.default_rng(3)
    return tuple(Image.fromarray(chance.integers(0, 256, (64, 96, 3), dtype=np.uint8)) for _ in range(2))  # type: ignore[return-value]


def test_the_captioner_needs_only_its_name(model_folder: Path, photos: Any) -> None:
    captioner = load(model_folder)
    result = captioner.caption(*photos).to_dict()
    assert result["schema_version"] == 2
    assert result["model"] == "pcl"
    assert result["change_type"] != "changed"
    assert isinstance(result["caption"], str)


def test_a_folder_gives_the_same_model(model_folder: Path) -> None:
    model, again = lively(), load_model(model_folder).model
    assert isinstance(again, IdcPcl)
    assert again.encoder.fingerprint() == model.encoder.fingerprint()
    before, after = images(model)
    assert torch.allclose(again.encode(before, after).tokens, model.encode(before, after).tokens, atol=1e-5)


def test_alignment_is_a_map_for_every_word(model_folder: Path, photos: Any) -> None:
    loaded = load_model(model_folder)
    seen = [loaded.preprocess([photo]) for photo in photos]
    ids, maps = word_alignment(loaded.model, seen[0], seen[1], DecodingOptions(max_words=7, min_words=7))
    assert maps.shape == (len(ids), 2, 2, 3)
    assert torch.allclose(maps.amax(dim=(1, 2, 3)), torch.ones(len(ids)))
    assert torch.allclose(maps.amin(dim=(1, 2, 3)), torch.zeros(len(ids)))
    figure = alignment_figure(*photos, [loaded.decode([word]) for word in ids], maps, caption=loaded.decode(ids))
    assert np.asarray(figure).std() > 10
    assert figure.width > 6 * 150


def test_alignment_needs_the_right_model(make_model: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="idc-pcl only"):
        word_alignment(make_model(), torch.zeros(1, 3, 32, 48), torch.zeros(1, 3, 32, 48))


def test_local_resnet_is_fed_as_it_was_trained(shared: Path) -> None:
    folder = shared / "weights" / "resnet50-imagenet"
    if not folder.is_dir():
        pytest.skip("no local ResNet-50 weights")
    settings = ModelSettings.model_validate(
        {"preset": "idc-pcl-resnet50", "vision": {"resnet": str(folder), "resnet_stride_first": True}}
    )
    preprocessor = preprocessor_for(settings)
    pixels = torch.full((1, 3, 224, 224), 200, dtype=torch.uint8)
    expected = torch.tensor([200 - 123.68, 200 - 116.779, 200 - 103.939])
    assert torch.allclose(preprocessor(pixels)[0, :, 0, 0], expected, atol=1e-2)
    model = build_model(settings).eval()
    assert isinstance(model, IdcPcl)
    with torch.inference_mode():
        cells = model.see(preprocessor(pixels), preprocessor(pixels))
    assert cells.shape == (1, 2, 49, 2048)
    assert float(cells.min()) >= 0
    assert float(cells.mean()) > 0.05
