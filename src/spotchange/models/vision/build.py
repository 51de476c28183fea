"""From vision settings to the parts that several architectures see with."""

from __future__ import annotations

from typing import Any

from spotchange.config.vision import VisionSettings
from spotchange.models.vision.vit import ImageEncoder


def image_encoder(vision: VisionSettings) -> ImageEncoder:
    """The intra blocks: a vision transformer on one image."""
    return ImageEncoder(
        image_size=vision.image_size,
        patch=vision.patch,
        width=vision.width,
        heads=vision.heads,
        blocks=vision.intra,
        stem=vision.stem,
        stem_channels=vision.stem_channels,
        activation=vision.activation,
        mlp_ratio=vision.mlp_ratio,
    )


def resnet_arguments(vision: VisionSettings) -> dict[str, Any]:
    """What every part around a ResNet takes."""
    return {
        "depths": vision.resnet_depths,
        "channels": vision.resnet_channels,
        "stage": vision.resnet_stage,
        "stride_first": vision.resnet_stride_first,
        "frozen": vision.freeze_backbone,
        "fixed_statistics": vision.resnet_fixed_statistics,
        "pretrained": vision.resnet,
    }
