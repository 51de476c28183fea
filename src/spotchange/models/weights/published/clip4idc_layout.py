"""The published CLIP4IDC checkpoints' captioner, in our names; their `clip.*` half is OpenAI's layout."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from spotchange.errors import ModelError

_BLOCK = {
    "slf_attn.att.query": "attention.query",
    "slf_attn.output.dense": "attention.output",
    "slf_attn.output.LayerNorm": "attention_norm",
    "enc_attn.att.query": "cross.query",
    "enc_attn.output.dense": "cross.output",
    "enc_attn.output.LayerNorm": "cross_norm",
    "intermediate.dense": "feed_forward.inner",
    "output.dense": "feed_forward.outer",
    "output.LayerNorm": "feed_forward_norm",
}
_TOP = {
    "embeddings.LayerNorm": "word_norm",
    "classifier.cls.predictions.transform.dense": "predict.dense",
    "classifier.cls.predictions.transform.LayerNorm": "predict.norm",
    "classifier.cls.predictions": "predict",  # the bias a word
}
TIED = (  # the published file holds CLIP's embeddings again under these names
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "classifier.cls.predictions.decoder.weight",
)
_LAYER = re.compile(r"(encoder|decoder)\.layer\.(\d+)\.(.+)\.(weight|bias)")


def captioner_settings(decoder: dict[str, Tensor], *, source: str) -> dict[str, Any]:
    """`captioner` settings from the shapes of `decoder.*`."""
    if "embeddings.LayerNorm.weight" not in decoder:
        raise ModelError(f"{source} is not a CLIP4IDC checkpoint; missing: decoder.embeddings.LayerNorm.weight")
    width = len(decoder["embeddings.LayerNorm.weight"])

    def count(part: str) -> int:
        return len({name.split(".")[2] for name in decoder if name.startswith(f"{part}.layer.")})

    return {
        "width": width,
        "heads": max(1, width // 64),
        "encoder_layers": count("encoder"),
        "decoder_layers": count("decoder"),
        "memory": "layerwise",
    }


def captioner_weights(decoder: dict[str, Tensor]) -> dict[str, Tensor]:
    """`decoder.*` (prefix removed) in our names: BERT's separate projections joined where ours are one."""
    renamed: dict[str, Tensor] = {}
    for name, value in decoder.items():
        if name in TIED:
            continue
        layer = _LAYER.fullmatch(name)
        if layer is None:
            stem, _, kind = name.rpartition(".")
            renamed[f"captioner.{_TOP.get(stem, stem)}.{kind}"] = value
            continue
        part, number, inner, kind = layer.groups()
        if inner.endswith((".key", ".value")):
            continue  # joined with the query below
        home = f"captioner.{part}.{number}."
        siblings = [name.replace(".query.", f".{each}.") for each in ("query", "key", "value")]
        if inner == "slf_attn.att.query":
            renamed[f"{home}attention.query_key_value.{kind}"] = _joined(decoder, siblings)
            continue
        if inner == "enc_attn.att.query":
            renamed[f"{home}cross.key_value.{kind}"] = _joined(decoder, siblings[1:])
        renamed[f"{home}{_BLOCK.get(inner, inner)}.{kind}"] = value
    return renamed


def _joined(decoder: dict[str, Tensor], names: list[str]) -> Tensor:
    # A missing part leaves a tensor of the wrong shape, which the check of the whole model reports.
    return torch.cat([decoder[name] for name in names if name in decoder])
