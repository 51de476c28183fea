"""Presets: the architectures that recipes name, as settings of a model."""

from __future__ import annotations

from typing import Any

# The kinds of change that everyday images know; `spotchange.everyday.kinds` draws them.
EVERYDAY_KINDS = (
    "none",
    "add",
    "drop",
    "move",
    "replace",
    "color",
    "turn",
    "split",
    "resize",
    "brighter",
    "darker",
    "blur",
    "crop",
    "mirror",
    "gray",
    "tint",
)


def merged(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    """Settings with those of `top` in the place of the same names, group by group."""
    result = dict(base)
    for key, value in top.items():
        both_groups = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both_groups else value
    return result


_FROM_SCRATCH: dict[str, Any] = {
    # A text width of its own: CLIP's words are not there, the scene vocabulary's embeddings are learnt.
    "text": {"width": 256, "heads": 4, "layers": 4, "activation": "gelu", "context": 48},
    "captioner": {"width": 256, "heads": 4, "encoder_layers": 0, "decoder_layers": 2, "memory": "last"},
    "heads": {"change": True, "patch_change": True},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}

_PCL_PARTS: dict[str, Any] = {
    "architecture": "idc-pcl",
    "text": {"encoder": False},
    "captioner": {"encoder_layers": 0, "decoder_layers": 3, "dropout": 0.2, "memory": "last"},
    # Distractor judging: is there a change or not.
    "heads": {"change": True, "change_types": ["none", "changed"]},
}
_IDC_PCL = merged(_PCL_PARTS, {"vision": {"backbone": "resnet", "layers": 0, "freeze_backbone": True}})

# Two towers of our own in CLIP's place, below 24 MiB in fp16; heads of 64 as CLIP has them. Patches of 24 pixels are 96
# an image (CLIP's ViT-B/32 has 49): half the cost of 216 of 16 pixels, and every run of the papers' tables starts here.
_SCENE_TOWERS: dict[str, Any] = {
    "vision": {
        "image_size": [192, 288],
        "stem": "conv",
        "stem_channels": [32, 48],
        "patch": 24,
        "width": 256,
        "heads": 4,
        "layers": 12,
        "activation": "gelu",
        "output_width": 256,
    },
    "text": {"width": 256, "heads": 4, "layers": 3, "activation": "gelu", "context": 64},
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}

_BASELINE: dict[str, Any] = {
    "architecture": "baseline",
    # As the published systems see CLEVR-Change: the third stage of a frozen ResNet, 14x14 cells of 1,024 channels. A
    # fourth one would be computed and carried along for nothing. (ResNet-101: resnet_depths 3, 4, 23.)
    "vision": {
        "backbone": "resnet",
        "resnet_depths": [3, 4, 6],
        "resnet_channels": [256, 512, 1024],
        "resnet_stage": 3,
        "layers": 0,
        "freeze_backbone": True,
    },
    "text": {"encoder": False, "context": 48},
    "captioner": None,
    "vocabulary": {"size": 80, "begin": 1, "end": 2, "pad": 0},
}

PRESETS: dict[str, dict[str, Any]] = {
    "baseline": _BASELINE,
    "clip4idc": {},
    # The first version: a wider captioner behind a linear layer, 3 layers on CLEVR-Change (2 elsewhere).
    "clip4idc-first": {"captioner": {"width": 768, "heads": 12}},
    "clip-ft": {"architecture": "clip-ft", "vision": {"n_inter": 0}, "text": {"encoder": False}},
    "ft1": {"architecture": "ft1", "vision": {"n_inter": 0}, "text": {"encoder": False}},
    "ft2": {"architecture": "ft2", "vision": {"n_inter": 0}, "text": {"encoder": False}},
    "conventional": {
        "architecture": "conventional",
        "vision": {"backbone": "resnet", "layers": 0, "freeze_backbone": True},
        "text": {"encoder": False},
    },
    # As published for CLEVR-Change: a frozen ResNet-101's grid, 3 cross-modal layers (2 for birds), the judge.
    "idc-pcl": merged(_IDC_PCL, {"vision": {"resnet_depths": [3, 4, 23, 3]}}),
    # What its pre-training trains: other heads.
    "idc-pcl-pretrain": merged(
        _IDC_PCL,
        {"vision": {"resnet_depths": [3, 4, 23, 3]}, "heads": {"change": False, "pretraining": True}},
    ),
    # The same on ResNet-50.
    "idc-pcl-resnet50": _IDC_PCL,
    # On CLIP's own backbone: patches of ViT-B/32 after the images met.
    "idc-pcl-clip": merged(_IDC_PCL, {"vision": {"backbone": "vit", "layers": 12, "freeze_backbone": False}}),
    "clip-vit-b16": {"vision": {"patch": 16}},
    "clip-vit-l14": {
        "vision": {"patch": 14, "width": 1024, "heads": 16, "layers": 24, "output_width": 768},
        "text": {"width": 768, "heads": 12},
        "captioner": {"width": 768, "heads": 12},
    },
    # What ships: patches of 16 pixels see a small sphere as two to four of them; below 48 MiB in fp16.
    "spotchange-small": merged(
        _FROM_SCRATCH,
        {
            "vision": {
                "image_size": [192, 288],
                "stem": "conv",
                "stem_channels": [48, 80],
                "patch": 16,
                "width": 384,
                "heads": 6,
                "layers": 12,
                "n_inter": 4,
                "activation": "gelu",
                "output_width": 256,
            }
        },
    ),
    "scene-clip": merged(_SCENE_TOWERS, {"architecture": "clip", "vision": {"n_inter": 0}, "captioner": None}),
    # CLIP4IDC's final version on those towers: 9 blocks see one image, 3 see both.
    "scene-clip4idc": merged(_SCENE_TOWERS, {"captioner": {"width": 256, "heads": 4}}),
    # IDC-PCL with the published blocks on the cells of scene-CLIP's vision tower; narrower (256 for 512).
    "scene-idc-pcl": merged(
        merged(_SCENE_TOWERS, _PCL_PARTS),
        {
            "vision": {"n_inter": 0},
            "captioner": {"width": 256, "heads": 4},
            "heads": {"pretraining": True},
        },
    ),
    # Everyday images: pretrained backbone, cells of 16 pixels, frames of sentences with slots for names.
    "spotchange-everyday": {
        "vision": {
            "backbone": "efficientnet-lite0",
            "image_size": [288, 288],
            "width": 256,
            "heads": 4,
            "layers": 4,
            "n_inter": 4,
            "difference": True,
            "matching": 2,
            "activation": "gelu",
            "output_width": 256,
        },
        "text": {"encoder": False, "width": 256, "heads": 4, "layers": 0, "activation": "gelu", "context": 24},
        "captioner": {"width": 256, "heads": 4, "encoder_layers": 0, "decoder_layers": 2, "memory": "last"},
        "heads": {
            "change": True,
            "change_by_heat": True,
            "patch_change": True,
            "change_types": list(EVERYDAY_KINDS),
            "nouns": 525,
        },
        "vocabulary": {"size": 88, "begin": 1, "end": 2, "pad": 0},
    },
    # Small enough to train on two CPU cores in a test or a first look.
    "spotchange-tiny": merged(
        _FROM_SCRATCH,
        {
            "vision": {
                "image_size": [48, 72],
                "stem": "conv",
                "stem_channels": [16, 32],
                "patch": 12,
                "width": 64,
                "heads": 2,
                "layers": 4,
                "n_inter": 2,
                "activation": "gelu",
                "output_width": 64,
            },
            "text": {"width": 64, "heads": 2, "layers": 2},
            "captioner": {"width": 64, "heads": 2, "decoder_layers": 1},
        },
    ),
}
