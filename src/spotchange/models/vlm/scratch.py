"""Small vision-language models with random weights: what a family's recipe reaches without anybody's pre-training."""

from __future__ import annotations

from typing import Any

from spotchange.errors import ConfigError
from spotchange.language import SPECIAL_TOKENS, TOKENS
from spotchange.models.vlm.checkpoint import Checkpoint
from spotchange.models.weights.transformers_import import import_transformers

PREFIX = "scratch/"
_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>")
_PAD, _BEGIN, _END, _UNKNOWN, _IMAGE = range(len(_SPECIAL))
# One turn each; small enough a vocabulary that the roles are words of it.
_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image> {% else %}{{ c['text'] }} {% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)
_SHAPES: dict[str, dict[str, Any]] = {
    # As many parameters as CLIP4IDC on scene-CLIP's towers (15.6 million).
    "llava-small": {
        "vision": {"image_size": 224, "patch_size": 16, "hidden_size": 256, "intermediate_size": 1024,
                   "num_hidden_layers": 9, "num_attention_heads": 4},
        "text": {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 10, "num_attention_heads": 4},
    },
    "llava-tiny": {
        "vision": {"image_size": 48, "patch_size": 16, "hidden_size": 32, "intermediate_size": 64,
                   "num_hidden_layers": 2, "num_attention_heads": 2},
        "text": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
    },
}  # fmt: skip


def build_scratch(name: str) -> Checkpoint:
    """`scratch/llava-small`: a LLaVA that knows the scenes' words; weights from torch's generator as it stands."""
    shape = _SHAPES.get(name.removeprefix(PREFIX))
    if shape is None:
        raise ConfigError(f"no model {name}", hint=f"one of {', '.join(PREFIX + each for each in _SHAPES)}")
    library: Any = import_transformers()
    tokenizer = _tokenizer(library)
    text = library.LlamaConfig(
        vocab_size=len(tokenizer), num_key_value_heads=shape["text"]["num_attention_heads"],
        pad_token_id=_PAD, bos_token_id=_BEGIN, eos_token_id=_END, **shape["text"],
    )  # fmt: skip
    config = library.LlavaConfig(
        vision_config=library.CLIPVisionConfig(**shape["vision"]),
        text_config=text,
        image_token_index=_IMAGE,
        vision_feature_layer=-1,
    )
    side = shape["vision"]["image_size"]
    square = {"height": side, "width": side}
    # Whole images, squashed: a crop would cut off what may have changed.
    images = library.CLIPImageProcessorPil(size=square, do_center_crop=False)
    processor = library.LlavaProcessor(
        image_processor=images, tokenizer=tokenizer, patch_size=shape["vision"]["patch_size"],
        vision_feature_select_strategy="default", chat_template=_TEMPLATE, num_additional_image_tokens=1,
    )  # fmt: skip
    return Checkpoint(model=library.LlavaForConditionalGeneration(config), processor=processor, signature=name)


def _tokenizer(library: Any) -> Any:
    """Words of the scenes' sentences, of the prompt `plain` and of the roles; one token each."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = dict.fromkeys([*_SPECIAL, "user", "assistant", "what", *TOKENS[len(SPECIAL_TOKENS) :]])
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=_SPECIAL[_UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<image>"],
    )  # fmt: skip
