"""Tiny checkpoints of the families people use: built from their configs, saved as the hub has them, taught one reply.

Two layers of width 32. Nothing here is trained: two rows of the output layer are set so that the model ends its
answer to the first question with `REPLY`, which is one token of the vocabulary, and stops.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from spotchange.answering.vlm.asking import Question
from spotchange.answering.vlm.local import LocalModel
from spotchange.models.weights.transformers_import import import_transformers

library: Any = import_transformers()

REPLY = '{"changed": true, "caption": "the mug is gone"}'
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def tokenizer(marks: Sequence[str], **named: str) -> Any:
    """Bytes, "yes", "no", the marks of a family and one token that is a whole reply."""
    words = ["<pad>", "<s>", "</s>", *marks, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ye", "yes", "no"]
    merges = [("y", "e"), ("ye", "s"), ("n", "o")]
    bytes_ = Tokenizer(models.BPE({word: place for place, word in enumerate(words)}, merges))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_.decoder = decoders.ByteLevel()
    made = library.PreTrainedTokenizerFast(
        tokenizer_object=bytes_,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens=named,
    )
    made.add_tokens(list(marks), special_tokens=True)
    made.add_tokens([REPLY])
    return made


def llava(folder: Path) -> None:
    words = tokenizer(["<image>"])
    vision = library.CLIPVisionConfig(image_size=28, patch_size=14, projection_dim=16, **SMALL)
    text = library.LlamaConfig(vocab_size=len(words), num_key_value_heads=2, **SMALL, **ENDS)
    config = library.LlavaConfig(vision_config=vision, text_config=text, image_token_index=_id(words, "<image>"))
    images = library.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    more = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    _save(folder, library.LlavaForConditionalGeneration(config), images, words, "LlavaProcessor", "<image>", more)


def language_model(folder: Path) -> None:
    """It sees no images; its template takes a turn as text and writes the start itself, as its tokenizer does too."""
    from tokenizers.processors import TemplateProcessing

    words = tokenizer([])
    words.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    words.chat_template = (
        "{{ bos_token }}{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    config = library.LlamaConfig(vocab_size=len(words), num_key_value_heads=2, **SMALL, **ENDS)
    library.LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)


def _qwen(folder: Path, kind: str, *, patch: int, text: dict[str, Any], vision: dict[str, Any]) -> None:
    marks = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>")
    words = tokenizer(marks)
    rope = {"rope_type": "default", "rope_theta": 1e4} | text.pop("rope")
    config = getattr(library, f"{kind}Config")(
        text_config=SMALL | ENDS | {"vocab_size": len(words), "num_key_value_heads": 2, "rope_parameters": rope} | text,
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
            "patch_size": patch, "spatial_merge_size": 2, "temporal_patch_size": 2, **vision,
        },
        tie_word_embeddings=False,
        **{f"{name}_token_id": _id(words, mark) for name, mark in zip(
            ("vision_start", "image", "vision_end", "video"), marks, strict=True)},
    )  # fmt: skip
    size = {"shortest_edge": (2 * patch) ** 2, "longest_edge": (4 * patch) ** 2}
    images = library.Qwen2VLImageProcessorPil(patch_size=patch, size=size)
    model = getattr(library, f"{kind}ForConditionalGeneration")(config)
    _save(folder, model, images, words, f"{kind}Processor", "".join(marks[:3]))


def qwen2_5_vl(folder: Path) -> None:
    text = {"max_window_layers": 2, "rope": {"mrope_section": [2, 3, 3]}}
    _qwen(folder, "Qwen2_5_VL", patch=14, text=text, vision={"window_size": 28, "fullatt_block_indexes": [1]})


def qwen3_vl(folder: Path) -> None:
    text = {"head_dim": 16, "rope": {"mrope_section": [4, 2, 2], "mrope_interleaved": True}}
    _qwen(
        folder, "Qwen3VL", patch=16, text=text, vision={"num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
    )


def _idefics3(folder: Path, kind: str) -> None:
    words = tokenizer(["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"])
    text = library.LlamaConfig(vocab_size=len(words), num_key_value_heads=2, **SMALL, **ENDS)
    config = getattr(library, f"{kind}Config")(
        vision_config=SMALL | {"image_size": 28, "patch_size": 14},
        text_config=text,
        image_token_id=_id(words, "<image>"),
        scale_factor=2,
        pad_token_id=0,
    )
    side = {"longest_edge": 28}
    images = getattr(library, f"{kind}ImageProcessorPil")(size=side, max_image_size=side, do_image_splitting=False)
    model = getattr(library, f"{kind}ForConditionalGeneration")(config)
    _save(folder, model, images, words, f"{kind}Processor", "<image>", {"image_seq_len": 1})


def idefics3(folder: Path) -> None:
    _idefics3(folder, "Idefics3")


def smolvlm(folder: Path) -> None:
    _idefics3(folder, "SmolVLM")


def llava_onevision(folder: Path) -> None:
    words = tokenizer(["<image>", "<video>"])
    config = library.LlavaOnevisionConfig(
        vision_config=_siglip(),
        text_config=library.Qwen2Config(vocab_size=len(words), num_key_value_heads=2, **SMALL, **ENDS),
        image_token_index=_id(words, "<image>"),
        video_token_index=_id(words, "<video>"),
        image_grid_pinpoints=[[28, 28]],
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )
    images = library.LlavaOnevisionImageProcessorPil(size={"height": 28, "width": 28}, image_grid_pinpoints=[[28, 28]])
    more = {"num_image_tokens": 4, "vision_feature_select_strategy": "full"}
    model = library.LlavaOnevisionForConditionalGeneration(config)
    _save(folder, model, images, words, "LlavaOnevisionProcessor", "<image>", more)


def gemma3(folder: Path) -> None:
    marks = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    words = tokenizer(list(marks.values()), **marks)
    text = library.Gemma3TextConfig(
        vocab_size=len(words), num_key_value_heads=2, head_dim=16, sliding_window=64, tie_word_embeddings=False,
        **SMALL, **ENDS,
    )  # fmt: skip
    config = library.Gemma3Config(
        vision_config=_siglip(),
        text_config=text,
        mm_tokens_per_image=4,
        tie_word_embeddings=False,
        boi_token_index=_id(words, marks["boi_token"]),
        eoi_token_index=_id(words, marks["eoi_token"]),
        image_token_index=_id(words, marks["image_token"]),
    )
    images = library.Gemma3ImageProcessorPil(size={"height": 28, "width": 28})
    model = library.Gemma3ForConditionalGeneration(config)
    _save(folder, model, images, words, "Gemma3Processor", "<start_of_image>", {"image_seq_length": 4})


def internvl(folder: Path) -> None:
    marks = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    words = tokenizer(list(marks.values()), **marks)
    config = library.InternVLConfig(
        vision_config=library.InternVLVisionConfig(image_size=[28, 28], patch_size=[14, 14], **SMALL),
        text_config=library.Qwen2Config(vocab_size=len(words), num_key_value_heads=2, **SMALL, **ENDS),
        image_token_id=_id(words, marks["context_image_token"]),
        image_seq_length=1,
        downsample_ratio=0.5,
        tie_word_embeddings=False,
    )
    images = library.GotOcr2ImageProcessorPil(size={"height": 28, "width": 28}, crop_to_patches=False)
    model = library.InternVLForConditionalGeneration(config)
    _save(folder, model, images, words, "InternVLProcessor", "<IMG_CONTEXT>", {"image_seq_length": 1})


FAMILIES: dict[str, Callable[[Path], None]] = {
    build.__name__: build
    for build in (llava, qwen2_5_vl, qwen3_vl, idefics3, smolvlm, llava_onevision, gemma3, internvl)
}


def teach(model: LocalModel, questions: Sequence[Question], folder: Path) -> None:
    """Make the model answer these questions with `REPLY` and stop, and save what it has learnt."""
    import torch

    network, words = model._model, model._processor.tokenizer
    first = model._inputs(questions)
    reply = torch.full((len(questions), 1), _id(words, REPLY))
    second = dict(first) | {
        name: torch.cat([first[name], torch.full_like(first[name][:, :1], filler)], dim=1)
        for name, filler in (("attention_mask", 1), ("mm_token_type_ids", 0), ("token_type_ids", 0))
        if name in first
    }
    second["input_ids"] = torch.cat([first["input_ids"], reply], dim=1)
    with torch.no_grad():
        now, then = (network(**each, output_hidden_states=True).hidden_states[-1][:, -1] for each in (first, second))
        now, then = now.mean(dim=0), then.mean(dim=0)
        rows = torch.linalg.pinv(torch.stack([now, then]))  # (width, 2): 1 where wanted, 0 at the other step
        output = network.get_output_embeddings().weight
        output[_id(words, REPLY)], output[ENDS["eos_token_id"]] = 50 * rows[:, 0], 50 * rows[:, 1]
    network.save_pretrained(folder)


def _siglip() -> Any:
    return library.SiglipVisionConfig(image_size=28, patch_size=14, vision_use_head=False, **SMALL)


def _id(words: Any, mark: str) -> int:
    return int(words.convert_tokens_to_ids(mark))


def _save(
    folder: Path, model: Any, images: Any, words: Any, kind: str, mark: str, more: dict[str, Any] | None = None
) -> None:
    """In the files of a hub checkpoint."""
    words.chat_template = TEMPLATE.replace("IMAGE", mark)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    images.save_pretrained(folder)
    settings = folder / "preprocessor_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"processor_class": kind}))
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": kind} | (more or {})))
