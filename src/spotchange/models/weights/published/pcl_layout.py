"""The published IDC-PCL checkpoints, in our names: which tensors there are, and what each is called here."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from spotchange.errors import ModelError
from spotchange.models.weights.published.expected_layout import Shapes, check_shapes

_MARK = "single_img_encoder.norm.a_2"  # no other checkpoint that can be imported has it
_TIED = {"feat_regress.weight": "img_project.0.weight"}
_CONSTANT = re.compile(r"position_encoding\.(?:pe|position_enc\w*)(?:\.\w+)?")  # a table that is computed

HEADS = 8  # of every published stage

_STACKS = {"single_img_encoder": "difference.single", "double_img_encoder": "difference.pair", "encoder": "captioner"}
_IN_BLOCK = {
    "attn.out": "attention.output",
    "feed_forward.w_1": "feed_forward.inner",
    "feed_forward.w_2": "feed_forward.outer",
    "sublayer.0.norm": "attention_norm",
    "sublayer.1.norm": "feed_forward_norm",
}
_TOP = {
    "word_embedding": "words.words",
    "img_project.0": "words.cells",
    "position_encoding.layernorm": "words.norm",
    "output_layer": "captioner.predict",
    "feat_regress": "cell_head",
    "feat_regress.net.0": "cell_head.inner",
    "feat_regress.net.2": "cell_head.norm",
    "classifier.0": "class_heads.classify",
    "aligner.0": "class_heads.match",
}
_KINDS = {"a_2": "weight", "b_2": "bias"}
_BLOCK = re.compile(r"(\w+)\.layers\.(\d+)\.(.+)\.(\w+)")


def is_published_pcl(state: dict[str, Tensor]) -> bool:
    """Whether tensors have the names of the published program."""
    return _MARK in state


def settings_of(state: dict[str, Tensor], *, source: str, heads: int = HEADS) -> dict[str, Any]:
    """Model settings from the shapes of a published checkpoint, which reads features and has no network.

    No tensor tells the number of attention heads.
    """
    for name in ("word_embedding.weight", "img_project.0.weight"):
        if name not in state or state[name].ndim != 2:
            raise ModelError(f"{source} is not a complete IDC-PCL checkpoint; missing: {name}")
    vocabulary, width = state["word_embedding.weight"].shape
    channels = state["img_project.0.weight"].shape[1]
    if heads < 1 or width % heads:
        raise ModelError(f"{source}: its width of {width} does not divide into {heads} heads", hint="--heads N")
    classes = state.get("classifier.0.bias")
    judges = "pooler.0.weight" in state and "feat_regress.bias" not in state
    return {
        "architecture": "idc-pcl",
        "vision": {"backbone": "features", "layers": 0, "resnet_channels": [256, 512, 1024, channels]},
        "text": {"encoder": False, "width": width, "context": 200},
        "captioner": {
            "width": width,
            "heads": heads,
            "encoder_layers": 0,
            "decoder_layers": _layers(state, "encoder"),
            "dropout": 0.2,
            "memory": "last",
        },
        "difference": {
            "single_layers": _layers(state, "single_img_encoder"),
            "pair_layers": _layers(state, "double_img_encoder"),
        },
        "pcl": {"inner": _inner(state)},
        "heads": {
            "change": judges,
            "change_types": ["none", "changed"],
            "pretraining": "feat_regress.bias" in state,
            "classes": None if classes is None else len(classes),
        },
        # Begin 1 and mask 5 stand in the program, the others are a guess: its dictionary was not published.
        "vocabulary": {"size": vocabulary, "begin": 1, "end": 2, "pad": 0, "mask": 5, "class_mark": 4},
    }


def published_shapes(settings: dict[str, Any]) -> Shapes:
    """All tensors of a checkpoint with these settings, but for those tied to others."""
    width, heads = settings["captioner"]["width"], settings["heads"]
    words, channels = settings["vocabulary"]["size"], settings["vision"]["resnet_channels"][-1]
    inner = settings["pcl"]["inner"] or 4 * width
    shapes: Shapes = {"word_embedding.weight": (words, width), "position_encoding.type_pe.weight": (7, width)}
    shapes |= _linear("img_project.0", channels, width) | _norm("position_encoding.layernorm", width)
    shapes |= _linear("output_layer", width, words)
    counts = (settings["difference"]["single_layers"], settings["difference"]["pair_layers"])
    for stack, layers in zip(_STACKS, (*counts, settings["captioner"]["decoder_layers"]), strict=True):
        shapes |= _norm(f"{stack}.norm", width)
        for number in range(layers):
            home = f"{stack}.layers.{number}."
            for part in ("q_linear", "k_linear", "v_linear", "out"):
                shapes |= _linear(f"{home}attn.{part}", width, width)
            shapes |= _linear(f"{home}feed_forward.w_1", width, inner)
            shapes |= _linear(f"{home}feed_forward.w_2", inner, width)
            shapes |= _norm(f"{home}sublayer.0.norm", width) | _norm(f"{home}sublayer.1.norm", width)
    if heads["change"] or heads["pretraining"]:
        shapes |= _linear("pooler.0", (2 if heads["change"] else 3) * width, 2)
    if heads["pretraining"]:
        shapes |= _linear("feat_regress.net.0", width, width) | _norm("feat_regress.net.2", width)
        shapes |= {"feat_regress.bias": (channels,)}
    if heads["classes"]:
        shapes |= _linear("classifier.0", width, heads["classes"]) | _linear("aligner.0", 2 * width, 2)
    return shapes


def weights_of(state: dict[str, Tensor], settings: dict[str, Any], *, source: str) -> dict[str, Tensor]:
    """The checkpoint's tensors in our names, all of them checked; queries, keys and values are one tensor here."""
    own = {name: value for name, value in state.items() if name not in _TIED and not _CONSTANT.fullmatch(name)}
    check_shapes(own, published_shapes(settings), source=source)
    pooler = "change_head" if settings["heads"]["change"] else "matching_head"
    renamed: dict[str, Tensor] = {"words.types": own["position_encoding.type_pe.weight"]}
    for name, value in own.items():
        block = _BLOCK.fullmatch(name)
        stem, _, kind = name.rpartition(".")
        kind = _KINDS.get(kind, kind)
        if block is not None:
            stack, number, inner, _ = block.groups()
            home = f"{_STACKS[stack]}.blocks.{number}."
            if inner in _IN_BLOCK:
                renamed[f"{home}{_IN_BLOCK[inner]}.{kind}"] = value
            elif inner == "attn.q_linear":
                parts = [own[name.replace("q_linear", part)] for part in ("q_linear", "k_linear", "v_linear")]
                renamed[f"{home}attention.query_key_value.{kind}"] = torch.cat(parts)
        elif stem.removesuffix(".norm") in _STACKS:
            renamed[f"{_STACKS[stem.removesuffix('.norm')]}.norm.{kind}"] = value
        elif stem == "pooler.0":
            renamed[f"{pooler}.{kind}"] = value
        elif stem in _TOP:
            renamed[f"{_TOP[stem]}.{kind}"] = value
    return renamed


def _layers(state: dict[str, Tensor], stack: str) -> int:
    return len({name.split(".")[2] for name in state if name.startswith(f"{stack}.layers.")})


def _inner(state: dict[str, Tensor]) -> int | None:
    """Rows of the first feed-forward part there is."""
    rows = (value.shape[0] for name, value in sorted(state.items()) if name.endswith("feed_forward.w_1.bias"))
    return next(rows, None)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.a_2": (width,), f"{name}.b_2": (width,)}
