"""Pairs as conversations: what a checkpoint is called with, what of it is learnt, and the shapes of prompts."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.config.model import ModelSettings
from spotchange.config.prompts import load_prompt
from spotchange.config.recipes import find_recipe
from spotchange.config.sources import DatasetSource
from spotchange.config.training import Recipe
from spotchange.data import Row, write_rows
from spotchange.errors import ConfigError, ModelError
from spotchange.language import build_tokenizer
from spotchange.models.build import build_model, settings_for
from spotchange.models.vlm.chat import IGNORED, ChatCoder, caption_in, shown
from spotchange.models.vlm.scratch import build_scratch
from spotchange.models.vlm.templates import conversation
from spotchange.training.sources.chat import FolderChats

RNG = np.random.default_rng(1)
SENTENCES = ("the red cube is gone", "there is no change")


def image(width: int, height: int) -> Image.Image:
    return Image.fromarray(RNG.integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def processor() -> Any:
    return build_scratch("scratch/llava-tiny").processor


@pytest.mark.parametrize("size", [(48, 48), (60, 40)], ids=["of the model's size", "to be scaled"])
def test_prompts_are_what_the_processor_makes_of_them(processor: Any, size: tuple[int, int]) -> None:
    coder = ChatCoder(processor, load_prompt("plain"), dtype=torch.float32)
    pairs = [(image(*size), image(*size)) for _ in SENTENCES]
    batch = coder.encode(pairs, SENTENCES, [1, 0])
    text = "user <image> <image> what changed assistant "
    expected = processor(text=[text] * 2, images=[list(pair) for pair in pairs], return_tensors="pt", padding=True)
    prompts = batch.prompts()
    assert prompts.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(prompts[name], expected[name], atol=1e-5, rtol=0)
    assert any(each is not None for each in coder._uniform.values()) == (size == (48, 48))


def test_only_replies_are_learnt_and_they_end(processor: Any) -> None:
    coder = ChatCoder(processor, load_prompt("plain"), dtype=torch.float32)
    batch = coder.encode([(image(48, 48), image(48, 48))] * 2, SENTENCES, [1, 0])
    assert (batch.labels[:, : batch.prompt_tokens] == IGNORED).all()
    for row, sentence in zip(batch.labels, SENTENCES, strict=True):
        learnt = row[row != IGNORED]
        assert int(learnt[-1]) == processor.tokenizer.eos_token_id
        assert coder.texts(learnt[None]) == [sentence]
    replies = batch.labels[:, batch.prompt_tokens :] != IGNORED
    assert torch.equal(batch.inputs["attention_mask"][:, batch.prompt_tokens :].bool(), replies)


def test_pairs_of_several_sizes_go_together(processor: Any) -> None:
    coder = ChatCoder(processor, load_prompt("plain"), dtype=torch.bfloat16)
    pairs = [(image(48, 48), image(30, 20)), (image(90, 40), image(48, 48))]
    batch = coder.encode(pairs, SENTENCES, [1, 0])
    assert batch.inputs["pixel_values"].shape == (4, 3, 48, 48)
    assert batch.inputs["pixel_values"].dtype == torch.bfloat16


def test_a_stacked_pair_is_one_image_with_before_above() -> None:
    before, after = Image.new("RGB", (40, 30), "red"), Image.new("RGB", (80, 60), "blue")
    (sheet,) = shown(load_prompt("blip2idc"), before, after)
    assert sheet.size == (40, 60)
    assert (sheet.getpixel((5, 5)), sheet.getpixel((5, 55))) == ((255, 0, 0), (0, 0, 255))


def test_lists_of_differences_are_learnt_whole(tmp_path: Path) -> None:
    image(48, 48).save(tmp_path / "a.png")
    listed = ("the cube moved", "the ball is gone")
    names = {"before_file_name": "a.png", "after_file_name": "a.png"}
    write_rows(tmp_path / "train" / "metadata.jsonl", [Row(id="a", captions=("two",), differences=listed, **names)])
    (tmp_path / "a.png").rename(tmp_path / "train" / "a.png")
    replies: list[str] = []
    coder: Any = SimpleNamespace(
        prompt=load_prompt("sentences"), encode=lambda images, spoken, kinds: replies.extend(spoken)
    )
    source = DatasetSource(kind="dataset", path=str(tmp_path))
    FolderChats(source, held_out_split="val", seed=0, rank=0, processes=1).batches(coder, 1).next_batch()
    assert json.loads(replies[0])["differences"] == list(listed)


def test_without_a_template_only_a_prompt_that_needs_none_is_asked(processor: Any) -> None:
    bare = build_scratch("scratch/llava-tiny").processor
    bare.chat_template = None
    with pytest.raises(ModelError, match="no chat template"):
        ChatCoder(bare, load_prompt("plain"), dtype=torch.float32)
    with pytest.raises(ConfigError, match="no model scratch/nothing"):
        build_scratch("scratch/nothing")


def test_a_template_without_a_system_turn_is_told_it_by_the_user() -> None:
    processor: Any = build_scratch("scratch/llava-tiny").processor
    plain = conversation(processor, load_prompt("plain").model_copy(update={"user": "be kind what changed"}))
    refusal = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turns') }}{% endif %}"
    processor.chat_template = refusal + processor.chat_template
    asked = load_prompt("plain").model_copy(update={"system": "be kind"})
    assert conversation(processor, asked) == plain
    ChatCoder(processor, asked, dtype=torch.float32)  # also with a reply behind it


def test_what_a_reply_ought_to_be_and_what_is_read_of_it() -> None:
    for name in ("sentence", "sentences", "clevr-change", "plain", "blip2idc"):
        prompt = load_prompt(name)
        for changed, caption in zip((True, False), SENTENCES, strict=True):
            assert caption_in(prompt, prompt.reply(changed=changed, caption=caption)) == caption
    for unreadable in ("the mug is gone", "[1]", '{"caption": 3}', '{"changed": true}', ""):
        assert caption_in(load_prompt("sentence"), unreadable) is None


def test_the_small_models_that_were_compared_are_of_one_size() -> None:
    """As docs/experiments/vlm.md has them: a preset that changes must not change what its recipe trains."""
    recipe = Recipe.from_yaml(find_recipe("vlm/small-clip4idc"))
    assert isinstance(recipe.model, ModelSettings)
    with torch.device("meta"):
        clip4idc = build_model(settings_for(recipe.model, build_tokenizer()))
    models = (build_scratch("scratch/llava-small").model, clip4idc)
    assert [sum(each.numel() for each in model.parameters()) for model in models] == [15_562_240, 15_611_504]
