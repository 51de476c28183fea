"""Names of CLIP's weights in OpenAI's layout, which open_clip and the published CLIP4IDC share, and ours.

Reading sizes from the tensors' shapes tells everything but the number of heads, which are 64 wide in all but
the largest models.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from spotchange.config.model import ModelSettings
from spotchange.errors import ModelError

_HEAD_WIDTHS = {1280: 80, 1408: 88, 1664: 104}  # of open_clip's ViT-H, -g and -bigG; all others: 64
_VISUAL = {
    "class_embedding": "encoder.backbone.class_token",
    "positional_embedding": "encoder.backbone.positions",
    "conv1.weight": "encoder.backbone.patches.convolution.weight",
    "bef_embedding": "encoder.before_vector",
    "aft_embedding": "encoder.after_vector",
    "joint_positional_embedding": "encoder.joint_positions",
    "ln_pre": "encoder.backbone.norm",
    "ln_mid": "encoder.joint_norm",
    "ln_post": "encoder.norm",
    "proj": "encoder.projection.weight",
}
_TEXT = {
    "token_embedding.weight": "words.words.weight",
    "positional_embedding": "words.positions",
    "ln_final": "text_encoder.transformer.norm",
    "text_projection": "text_encoder.projection.weight",
    "logit_scale": "logit_scale",
}
_BLOCK = {
    "ln_1": "attention_norm",
    "ln_2": "feed_forward_norm",
    "attn.in_proj_weight": "attention.query_key_value.weight",
    "attn.in_proj_bias": "attention.query_key_value.bias",
    "attn.out_proj": "attention.output",
    "mlp.c_fc": "feed_forward.inner",
    "mlp.c_proj": "feed_forward.outer",
}
_TRANSPOSED = {"encoder.projection.weight", "text_encoder.projection.weight"}
_NOT_WEIGHTS = ("input_resolution", "context_length", "vocab_size", "attn_mask")
_RESBLOCK = re.compile(r"(visual\.)?transformer\.resblocks\.(\d+)\.(.+)")


def settings_from_shapes(state: dict[str, Tensor], *, activation: str, source: str) -> dict[str, Any]:
    """`vision` and `text` settings of a checkpoint in OpenAI's layout."""
    needed = ("visual.conv1.weight", "visual.positional_embedding", "visual.proj", "token_embedding.weight",
              "positional_embedding")  # fmt: skip
    missing = [name for name in needed if name not in state]
    if missing:
        raise ModelError(f"{source} is not a CLIP vision transformer: {', '.join(missing)} missing")
    width, _, patch, _ = state["visual.conv1.weight"].shape
    side = round((len(state["visual.positional_embedding"]) - 1) ** 0.5)
    if side**2 + 1 != len(state["visual.positional_embedding"]):
        raise ModelError(f"{source}: {len(state['visual.positional_embedding'])} positions are not a square and one")
    vocabulary, text_width = state["token_embedding.weight"].shape
    layers = _count_blocks(state, "visual.transformer.resblocks.")
    return {
        "vision": {
            "image_size": [side * patch, side * patch],
            "patch": patch,
            "width": width,
            "heads": max(1, width // _HEAD_WIDTHS.get(width, 64)),
            "layers": layers,
            "activation": activation,
            "output_width": state["visual.proj"].shape[1],
        },
        "text": {
            "width": text_width,
            "heads": max(1, text_width // 64),
            "layers": _count_blocks(state, "transformer.resblocks."),
            "activation": activation,
            "context": len(state["positional_embedding"]),
        },
        "vocabulary": {"size": vocabulary, "begin": vocabulary - 2, "end": vocabulary - 1, "pad": 0},
    }


def strip_text_prefix(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """open_clip's newer files put the text tower under `text.`."""
    return {name.removeprefix("text."): value for name, value in state.items() if name != "logit_bias"}


def without_constants(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights only: OpenAI's archives also keep sizes and the causal mask."""
    return {
        name: value for name, value in state.items() if name not in _NOT_WEIGHTS and not name.endswith(".attn_mask")
    }


def from_openai(state: dict[str, Tensor], settings: ModelSettings) -> dict[str, Tensor]:
    """Rename (and transpose) to our layout; names nobody knows stay as they are and fail the check later."""
    renamed: dict[str, Tensor] = {}
    for name, value in without_constants(state).items():
        ours = _our_name(name, settings)
        value = value.float() if value.is_floating_point() else value
        renamed[ours] = value.T.contiguous() if ours in _TRANSPOSED else value
    return renamed


def _our_name(name: str, settings: ModelSettings) -> str:
    block = _RESBLOCK.fullmatch(name)
    if block:
        tower, number, rest = block.groups()
        return f"{_block_home(bool(tower), int(number), settings)}.{_renamed(rest, _BLOCK)}"
    if name.startswith("visual."):
        return _renamed(name.removeprefix("visual."), _VISUAL)
    return _renamed(name, _TEXT)


def _block_home(visual: bool, number: int, settings: ModelSettings) -> str:
    if not visual:
        return f"text_encoder.transformer.blocks.{number}"
    intra = settings.vision.intra
    return f"encoder.backbone.blocks.{number}" if number < intra else f"encoder.inter.{number - intra}"


def _renamed(name: str, names: dict[str, str]) -> str:
    """By the whole name, or by all but the last part (weight, bias)."""
    if name in names:
        return names[name]
    stem, _, last = name.rpartition(".")
    return f"{names[stem]}.{last}" if stem in names else name


def _count_blocks(state: dict[str, Tensor], prefix: str) -> int:
    numbers = {int(name.removeprefix(prefix).split(".")[0]) for name in state if name.startswith(prefix)}
    return max(numbers, default=-1) + 1


# transformers' CLIPModel

_HF_TOP = {
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.pre_layrnorm": "visual.ln_pre",  # their spelling
    "vision_model.post_layernorm": "visual.ln_post",
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm": "ln_final",
    "logit_scale": "logit_scale",
}
_HF_BLOCK = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "self_attn.out_proj": "attn.out_proj",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}
_HF_LAYER = re.compile(r"(vision|text)_model\.encoder\.layers\.(\d+)\.(.+)")


def openai_from_transformers(state: dict[str, Tensor], *, source: str) -> dict[str, Tensor]:
    """A `CLIPModel` state dict in OpenAI's layout: queries, keys and values joined, projections transposed."""
    split = [name.replace("q_proj", each) for name in state if "q_proj" in name for each in ("k_proj", "v_proj")]
    missing = [name for name in split if name not in state]
    if missing:
        raise ModelError(f"{source} is not a complete checkpoint; missing: {', '.join(missing[:5])}")
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        layer = _HF_LAYER.fullmatch(name)
        if name.endswith("position_ids") or (layer and layer[3].startswith(("self_attn.k_proj", "self_attn.v_proj"))):
            continue
        if name in ("visual_projection.weight", "text_projection.weight"):
            renamed["visual.proj" if name.startswith("visual") else "text_projection"] = value.T.contiguous()
        elif layer:
            home = f"{'visual.' if layer[1] == 'vision' else ''}transformer.resblocks.{layer[2]}."
            if layer[3].startswith("self_attn.q_proj"):
                kind = layer[3].rpartition(".")[2]
                parts = [state[name.replace("q_proj", each)] for each in ("q_proj", "k_proj", "v_proj")]
                renamed[f"{home}attn.in_proj_{kind}"] = torch.cat(parts)
            else:
                renamed[home + _renamed(layer[3], _HF_BLOCK)] = value
        else:
            renamed[_renamed(name, _HF_TOP)] = value
    return renamed
