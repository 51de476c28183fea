"""`vlm:` models: a tiny LLaVA built here, saved, loaded by its folder and asked. What it writes means nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from spotchange.answering import ImagePair
from spotchange.answering.interface import CaptionOptions
from spotchange.answering.vlm.build import build_vlm
from spotchange.errors import ModelError, ReplyError
from spotchange.models.weights.transformers_import import import_transformers

WORDS = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "yes", "no", "a", "the", "mug", "is", "gone", "USER", "ASSISTANT")
TEMPLATE = (
    "{% for m in messages %}{{ m['role']|upper }} {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT {% endif %}"
)

REPLY = '{"changed": true, "caption": "the mug is gone"}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    library: Any = import_transformers()
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<image>"],
    )  # fmt: skip
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = library.CLIPVisionConfig(image_size=28, patch_size=14, projection_dim=16, **small)
    text = library.LlamaConfig(
        vocab_size=len(WORDS), num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2, **small
    )
    torch.manual_seed(0)
    settings = library.LlavaConfig(vision_config=vision, text_config=text, image_token_index=4)
    images = library.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = library.LlavaProcessor(
        image_processor=images, tokenizer=tokenizer, patch_size=14, vision_feature_select_strategy="default",
        chat_template=TEMPLATE, num_additional_image_tokens=1,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("vlm") / "tiny-llava"
    library.LlavaForConditionalGeneration(settings).save_pretrained(path)
    processor.save_pretrained(path)
    return path


def pairs() -> list[ImagePair]:
    red, green, blue = (Image.new("RGB", (40, 30), color) for color in ("red", "green", "blue"))
    return [ImagePair.of(red, blue), ImagePair.of(green, blue)]


def test_every_pair_is_asked_and_nonsense_is_an_error_row(folder: Path) -> None:
    answerer = build_vlm(f"vlm:{folder}", {"no_cache": "true", "max_new_tokens": "4", "batch_size": "2"}, device="cpu")
    outcomes = answerer.answer(pairs(), CaptionOptions())
    assert [type(each) for each in outcomes] == [ReplyError, ReplyError]
    assert "not JSON" in outcomes[0].message  # type: ignore[union-attr]
    assert answerer.tokens["asked"] == 2
    assert answerer.tokens["reply"] > 0


def test_a_reply_that_can_be_read_becomes_an_answer_with_a_score(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answerer = build_vlm(f"vlm:{folder}", {"no_cache": "true", "max_new_tokens": "4", "score": "true"}, device="cpu")
    generate = answerer.model._generate  # type: ignore[attr-defined]

    def readable(questions: Any) -> Any:
        from dataclasses import replace

        said = generate(questions)
        return [each if each.yes_probability is not None else replace(each, text=REPLY) for each in said]

    monkeypatch.setattr(answerer.model, "_generate", readable)
    for answer in answerer.answer(pairs(), CaptionOptions(threshold=0.0)):
        assert answer.result.caption == "the mug is gone"  # type: ignore[union-attr]
        assert 0 < answer.result.change_score < 1  # type: ignore[union-attr]
        assert answer.result.changed  # type: ignore[union-attr]


def test_other_weights_than_safetensors_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match="no safetensors"):
        build_vlm(f"vlm:{tmp_path}", {"no_cache": "true"}, device="cpu")


def test_a_folder_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cannot load"):
        build_vlm(f"vlm:{tmp_path}", {"no_cache": "true"}, device="cpu")
