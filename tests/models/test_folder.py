"""Model folders: what is saved comes back, and what is damaged is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from spotchange.config.model import ModelSettings
from spotchange.errors import InputError, ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.build import build_model, vocabulary_of
from spotchange.models.interface import DecodingOptions
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.description import INDEX
from spotchange.models.weights.folder import LoadedModel, load_model, save_model


@pytest.fixture
def saved(tmp_path: Path) -> LoadedModel:
    """A tiny model with the scene vocabulary, saved in several shards."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    settings = ModelSettings.model_validate({"preset": "spotchange-tiny"})
    settings = settings.model_copy(update={"vocabulary": vocabulary_of(tokenizer)})
    preprocessor = Preprocessor(image_size=settings.vision.image_size)
    model = build_model(settings).eval()
    folder = tmp_path / "model"
    save_model(
        folder,
        model=model,
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=preprocessor,
        texts={"recipe.yaml": "name: test\n"},
        max_shard_bytes=200_000,
    )
    return LoadedModel(model=model, settings=settings, tokenizer=tokenizer, preprocessor=preprocessor, folder=folder)


def test_round_trip(saved: LoadedModel) -> None:
    loaded = load_model(saved.folder)
    assert len(list(saved.folder.glob("model-*.safetensors"))) > 2
    assert loaded.settings == saved.settings
    assert loaded.preprocessor == saved.preprocessor
    assert loaded.tokenizer.get_vocab() == saved.tokenizer.get_vocab()
    assert (saved.folder / "recipe.yaml").read_text() == "name: test\n"
    assert {path.name for path in saved.folder.parent.iterdir()} == {"model"}  # nothing temporary is left
    for name, value in saved.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], value), name
    assert all(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.name == "model"


def test_half_precision_without_text_encoder(saved: LoadedModel, tmp_path: Path) -> None:
    save_model(
        tmp_path / "small",
        model=saved.model,
        settings=saved.settings,
        tokenizer=saved.tokenizer,
        preprocessor=saved.preprocessor,
        stored="float16",
        keep_text_encoder=False,
    )
    loaded = load_model(tmp_path / "small")
    assert loaded.model.text_encoder is None
    assert not loaded.settings.text.encoder
    weight, original = loaded.model.encoder.before_vector, saved.model.encoder.before_vector
    assert weight.dtype == torch.float32
    torch.testing.assert_close(weight, original, atol=1e-3, rtol=1e-3)
    size = (tmp_path / "small/model.safetensors").stat().st_size
    assert size < 2.2 * sum(parameter.numel() for parameter in loaded.model.parameters()) + 40_000


def test_saving_again_replaces_the_folder(saved: LoadedModel) -> None:
    (saved.folder / "stale.txt").write_text("old")
    save_model(
        saved.folder,
        model=saved.model,
        settings=saved.settings,
        tokenizer=saved.tokenizer,
        preprocessor=saved.preprocessor,
    )
    assert not (saved.folder / "stale.txt").exists()
    assert not list(saved.folder.glob("model-*.safetensors"))  # no shards of the old one
    load_model(saved.folder)
    assert {path.name for path in saved.folder.parent.iterdir()} == {"model"}


def test_images_to_sentence(saved: LoadedModel) -> None:
    loaded = load_model(saved.folder)
    images = [Image.new("RGB", (90, 60), colour) for colour in ("red", "blue")]
    before, after = (loaded.preprocess([image]) for image in images)
    generated = loaded.model.generate(loaded.model.encode(before, after), DecodingOptions(max_words=8))
    sentence = loaded.decode(generated.ids[0, 0].tolist())
    assert all(word in saved.tokenizer.get_vocab() for word in sentence.split())
    ids = saved.tokenizer.encode("the small red cube moved").ids
    assert loaded.decode([*ids, 0, 0]) == "the small red cube moved"


def _truncate(folder: Path) -> None:
    path = sorted(folder.glob("model-*.safetensors"))[0]
    path.write_bytes(path.read_bytes()[:-10])


def _truncate_without_index(folder: Path) -> None:
    _truncate(folder)
    index = json.loads((folder / INDEX).read_text())
    del index["metadata"]["sha256"]
    (folder / INDEX).write_text(json.dumps(index))


def _forget_a_shard(folder: Path) -> None:
    sorted(folder.glob("model-*.safetensors"))[0].unlink()


def _change_settings(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["vision"]["layers"] = 5
    (folder / "config.json").write_text(json.dumps(config))


def _other_model(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert"}')


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (_truncate, "damaged"),
        (_truncate_without_index, "not a complete safetensors file"),
        (_forget_a_shard, "has no model-00001"),
        (_change_settings, r"encoder.backbone.blocks.2.*missing"),
        (_other_model, "not a spotchange model"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "not a tokenizer"),
        (lambda folder: (folder / "preprocessor_config.json").write_text("{}"), "preprocessor_config.json"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "not valid JSON"),
    ],
)
def test_damage_is_named(saved: LoadedModel, harm: Callable[[Path], None], complaint: str) -> None:
    harm(saved.folder)
    with pytest.raises(ModelError, match=complaint):
        load_model(saved.folder)


def test_no_folder_and_no_room(saved: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(InputError, match="cannot write"):
            save_model(
                target,
                model=saved.model,
                settings=saved.settings,
                tokenizer=saved.tokenizer,
                preprocessor=saved.preprocessor,
            )
