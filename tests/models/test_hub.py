"""The transformers wrapper, both ways, and that nothing else imports transformers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from spotchange.language.vocabulary import build_tokenizer
from spotchange.models.interface import DecodingOptions
from spotchange.models.vision.preprocess import Preprocessor
from spotchange.models.weights.folder import load_model, save_model


@torch.no_grad()
def test_there_and_back(make_settings: Callable, pictures: Callable, tmp_path: Path) -> None:
    from spotchange.models.build import build_model, settings_for
    from spotchange.models.weights.hub import SpotchangeModel, transformers

    tokenizer = build_tokenizer()
    settings = settings_for(make_settings(), tokenizer)
    model = build_model(settings).eval()
    preprocessor = Preprocessor(image_size=settings.vision.image_size)
    save_model(tmp_path / "ours", model=model, settings=settings, tokenizer=tokenizer, preprocessor=preprocessor)
    before, after = pictures(model, 2)
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
    for name in ("tokenizer.json", "preprocessor_config.json"):
        (tmp_path / "theirs" / name).write_bytes((tmp_path / "ours" / name).read_bytes())
    torch.testing.assert_close(load_model(tmp_path / "theirs").model.encode(before, after).tokens, expected)
    assert transformers.AutoConfig.from_pretrained(tmp_path / "ours").model_type == "spotchange"


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
