"""Checkpoints that were cut off, edited, or made to lead elsewhere: one line each, and nothing of them is run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tiny_families import FAMILIES

from spotchange.answering import ImagePair
from spotchange.answering.interface import CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.errors import ModelError, ReplyError

QUIET = {"no_cache": "true", "max_new_tokens": "2"}
ADAPTER = {"peft_type": "LORA", "target_modules": ["q_proj"], "r": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vlm") / "tiny-llava"
    FAMILIES["llava"](path)
    return path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "tiny-llava"))


def load(folder: Path) -> Any:
    return build_vlm(f"vlm:{folder}", QUIET, device="cpu")


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "preprocessor_config.json"])
def test_a_file_that_was_cut_off_is_one_line(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match="cannot load the vision-language model") as caught:
        load(folder)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config.json", {"text_config": 3}),
        ("config.json", {"text_config": {"model_type": "llama", "hidden_size": -3}}),
        ("config.json", {"vision_config": None}),  # weights of another size
        ("tokenizer.json", {"added_tokens": "none"}),
    ],
)
def test_settings_that_make_no_model_are_one_line(folder: Path, name: str, values: dict[str, Any]) -> None:
    edit(folder / name, **values)
    with pytest.raises(ModelError, match="cannot load the vision-language model") as caught:
        load(folder)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("index", ["model.safetensors.index.json", "mine.safetensors.index.json"])
def test_an_index_of_safetensors_cannot_lead_to_other_weights(folder: Path, index: str) -> None:
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    (folder / index).write_text(json.dumps({"metadata": {}, "weight_map": {"a.weight": "pytorch_model.bin"}}))
    if not index.startswith("model"):
        edit(folder / "config.json", transformers_weights=index)
    with pytest.raises(ModelError, match=r"keeps weights in pytorch_model\.bin"):
        load(folder)


def test_an_adapter_that_was_cut_off_is_one_line(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(ADAPTER | {"base_model_name_or_path": str(whole)}))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"\x10")
    with pytest.raises(ModelError, match="cannot put the adapter"):
        load(tmp_path)


@pytest.mark.parametrize("template", ["{{ 1/0 }}", "{{ raise_exception('one image only') }}", "{% if %}", ""])
def test_a_template_that_cannot_be_used_is_one_line(folder: Path, template: str) -> None:
    (folder / "chat_template.jinja").write_text(template)
    answerer = load(folder)
    with pytest.raises(ModelError, match="template refuses this conversation" if template else "has no chat template"):
        answerer.answer([pair()], CaptionOptions())


def test_whatever_a_family_raises_is_an_error_of_its_pair(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answerer = load(whole)

    def generate(**inputs: Any) -> None:
        raise ZeroDivisionError("no\nimages")

    monkeypatch.setattr(answerer.asker.model._model, "generate", generate)
    (outcome,) = answerer.answer([pair()], CaptionOptions())
    assert isinstance(outcome, ReplyError)
    assert outcome.message == "tiny-llava failed on this pair: ZeroDivisionError: no images"


def pair() -> ImagePair:
    return ImagePair.of(Image.new("RGB", (40, 30), "red"), Image.new("RGB", (40, 30), "blue"))
