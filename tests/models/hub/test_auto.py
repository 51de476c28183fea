"""The transformers wrapper, both ways, and that nothing else imports transformers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

import spotchange
from spotchange.errors import ModelError
from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.interface import DecodingOptions
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.folder import load_model, save_model


@torch.no_grad()
def test_there_and_back(make_settings: Callable, images: Callable, tmp_path: Path) -> None:
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.hub.auto import SpotchangeModel, transformers

    tokenizer = build_tokenizer()
    settings = settings_for(make_settings(), tokenizer)
    model = build_model(settings).eval()
    preprocessor = Preprocessor(image_size=settings.vision.image_size)
    save_model(tmp_path / "ours", model=model, settings=settings, tokenizer=tokenizer, preprocessor=preprocessor)
    before, after = images(model, 2)
    expected = model.encode(before, after).tokens

    wrapped = transformers.AutoModel.from_pretrained(tmp_path / "ours").eval()
    assert isinstance(wrapped, SpotchangeModel)
    outputs = wrapped(before, after, torch.tensor([[1, 5]] * 2))
    torch.testing.assert_close(outputs["tokens"], expected)
    assert outputs["logits"].shape == (2, 2, settings.vocabulary.size)
    assert wrapped.generate(wrapped.encode(before, after), DecodingOptions(max_words=4)).ids.shape == (2, 1, 4)

    wrapped.save_pretrained(tmp_path / "theirs", max_shard_size="200KB")
    again = transformers.AutoModel.from_pretrained(tmp_path / "theirs").eval()
    torch.testing.assert_close(again.encode(before, after).tokens, expected)
    torch.testing.assert_close(load_model(tmp_path / "theirs").model.encode(before, after).tokens, expected)
    assert transformers.AutoConfig.from_pretrained(tmp_path / "ours").model_type == "spotchange"


@torch.no_grad()
def test_weights_of_eight_bits_are_not_taken_for_numbers(
    make_settings: Callable, images: Callable, tmp_path: Path
) -> None:
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.hub.auto import transformers

    tokenizer = build_tokenizer()
    settings = settings_for(make_settings(), tokenizer)
    model = build_model(settings).eval()
    preprocessor = Preprocessor(image_size=settings.vision.image_size)
    parts = {"settings": settings, "tokenizer": tokenizer, "preprocessor": preprocessor}
    save_model(tmp_path / "small", model=model, stored="int8", **parts)
    wrapped = transformers.AutoModel.from_pretrained(tmp_path / "small").eval()
    before, after = images(model, 2)
    expected = load_model(tmp_path / "small").model.encode(before, after).tokens
    torch.testing.assert_close(wrapped.encode(before, after).tokens, expected)
    wrapped.save_pretrained(tmp_path / "again")
    torch.testing.assert_close(load_model(tmp_path / "again").model.encode(before, after).tokens, expected)


@torch.no_grad()
def test_save_pretrained_writes_a_folder_that_load_opens(ours: Path, tmp_path: Path) -> None:
    from spotchange.models.hub.auto import SpotchangeConfig, SpotchangeModel

    pair = (Image.new("RGB", (40, 30), "red"), Image.new("RGB", (40, 30), "blue"))
    SpotchangeModel.from_pretrained(ours).save_pretrained(tmp_path / "again")
    first, second = (spotchange.load(folder, device="cpu").caption(*pair) for folder in (ours, tmp_path / "again"))
    assert first.caption == second.caption
    assert (tmp_path / "again" / "tokenizer.json").read_text() == (ours / "tokenizer.json").read_text()

    made = SpotchangeModel(SpotchangeConfig(settings={"preset": "spotchange-tiny"}))  # from nothing but its settings
    made.save_pretrained(tmp_path / "made")
    assert spotchange.load(tmp_path / "made", device="cpu").caption(*pair).model == "made"
    unknown = SpotchangeModel(SpotchangeConfig(settings={"preset": "spotchange-tiny", "vocabulary": {"size": 99}}))
    with pytest.raises(ModelError, match="tokenizer is not known"):
        unknown.save_pretrained(tmp_path / "unknown")
    assert not (tmp_path / "unknown").exists()


IMPORTS = {
    "transformers first": """
from transformers import AutoModel
import spotchange.models.hub.auto
from transformers import AutoProcessor
""",
    "ours first": """
import spotchange.models.hub.auto
from transformers import AutoModel, AutoProcessor
""",
    # A torchvision that was built for another torch would take transformers down before anyone of ours is asked.
    "without ours": """
import sys
sys.modules["torchvision"] = None
from transformers import AutoModel, AutoProcessor
""",
}


@pytest.mark.parametrize("order", list(IMPORTS))
def test_auto_classes_in_either_order_and_without_our_import(order: str, ours: Path, tmp_path: Path) -> None:
    trusts = ", trust_remote_code=True" if order == "without ours" else ""
    program = f"""
{IMPORTS[order]}
from PIL import Image
model = AutoModel.from_pretrained({str(ours)!r}{trusts})
processor = AutoProcessor.from_pretrained({str(ours)!r}{trusts})
inputs = processor(Image.new("RGB", (40, 30), "red"), Image.new("RGB", (40, 30), "blue"), captions="there is no change")
outputs = model(**{{name: inputs[name] for name in ("before", "after", "caption_ids")}})
assert outputs["logits"].shape[0] == 1
assert processor.batch_decode(inputs["caption_ids"]) == ["there is no change"]
model.save_pretrained({str(tmp_path / "saved")!r})
processor.save_pretrained({str(tmp_path / "saved")!r})
import spotchange
print(spotchange.load({str(tmp_path / "saved")!r}, device="cpu").name, type(model).__name__, type(processor).__name__)
"""
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["saved", "SpotchangeModel", "SpotchangeProcessor"]
    assert sorted(path.name for path in (tmp_path / "saved").glob("*.py")) == ["modeling_spotchange.py"]


def test_loading_and_captioning_import_no_transformers(make_settings: Callable, tmp_path: Path) -> None:
    from spotchange.models.build import build_model, settings_for

    tokenizer = build_tokenizer()
    settings = settings_for(make_settings(), tokenizer)
    save_model(
        tmp_path / "model",
        model=build_model(settings),
        settings=settings,
        tokenizer=tokenizer,
        preprocessor=Preprocessor(image_size=settings.vision.image_size),
    )
    program = f"""
import sys
from PIL import Image
from spotchange.models.weights.folder import load_model
from spotchange.models.interface import DecodingOptions
loaded = load_model({str(tmp_path / "model")!r})
pictures = [loaded.preprocess([Image.new("RGB", (20, 20), colour)]) for colour in ("red", "blue")]
loaded.model.generate(loaded.model.encode(*pictures), DecodingOptions(max_words=3))
print(sorted({{"transformers", "torchvision", "torch._dynamo"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
