"""BLIP2IDC's recipe on a tiny BLIP-2 built here: both images in one, LoRA where its authors have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from spotchange.answering import CaptionOptions, ImagePair, LoadOptions, build_answerer
from spotchange.config.recipes import find_recipe
from spotchange.config.training import Recipe
from spotchange.language import SPECIAL_TOKENS, TOKENS
from spotchange.models.weights.transformers_import import import_transformers
from spotchange.training.run import run_stage

WORDS = ("<s>", "<pad>", "</s>", "<unk>", *TOKENS[len(SPECIAL_TOKENS) :])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library: Any = import_transformers()
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="</s> $A", special_tokens=[("</s>", 2)])
    tokenizer = library.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="</s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    images = library.BlipImageProcessorPil(size={"height": 28, "width": 28})
    processor = library.Blip2Processor(images, tokenizer, num_query_tokens=4)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = library.OPTConfig(
        vocab_size=len(tokenizer), ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64,
        pad_token_id=1, bos_token_id=2, eos_token_id=2, **small,
    )  # fmt: skip
    config = library.Blip2Config(
        vision_config={**small, "intermediate_size": 64, "image_size": 28, "patch_size": 14},
        qformer_config={**small, "intermediate_size": 64, "encoder_hidden_size": 32, "cross_attention_frequency": 1},
        text_config=text.to_dict(),
        num_query_tokens=4,
        image_token_index=len(WORDS),
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("blip") / "tiny-blip2"
    library.Blip2ForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_the_recipe_trains_where_its_authors_adapt(base: Path, tmp_path: Path) -> None:
    changes = [
        f"model.base={base}", "model.dtype=float32", "data={kind: stream, scenes: {max_objects: 3}}",
        "model.image_size=[32, 48]", "stage.precision=fp32", "stage.steps=2", "stage.pairs_per_step=4",
        "validation.pairs=4", "validation.pairs_per_batch=4", "validation.max_words=8",
    ]  # fmt: skip
    recipe = Recipe.from_yaml(find_recipe("vlm/blip2idc"), changes)
    summary = run_stage(recipe, out=tmp_path / "out", device="cpu")
    assert summary is not None
    assert summary["metric"] == "loss"
    from safetensors import safe_open

    with safe_open(tmp_path / "out" / "best" / "adapter_model.safetensors", "pt") as saved:
        adapted = {name.partition(".lora_")[0].removeprefix("base_model.model.") for name in saved.keys()}  # noqa: SIM118
    kinds = {name.rpartition(".")[2] for name in adapted}
    assert kinds == {"qkv", "key", "value", "query", "q_proj", "k_proj", "v_proj"}
    assert all("crossattention" in name for name in adapted if name.endswith(".query"))
    assert any("attention.attention.key" in name and "cross" not in name for name in adapted)

    answerer = build_answerer(
        f"vlm:{tmp_path / 'out' / 'best'}",
        LoadOptions(device="cpu", model_options={"no_cache": "true", "max_new_tokens": "6"}),
    )
    pair = ImagePair.of(Image.new("RGB", (48, 32), "red"), Image.new("RGB", (48, 32), "blue"))
    (outcome,) = answerer.answer([pair], CaptionOptions())
    assert "prompt blip2idc.v1@" in answerer.card.architecture
    # Two steps teach nobody to end a sentence; whatever comes was said by the model, not by a failure of asking it.
    assert "failed on this pair" not in getattr(outcome, "message", "")
