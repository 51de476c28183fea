"""From settings to IDC-PCL: `build.py`'s part for this architecture."""

from __future__ import annotations

from typing import Any

from torch import nn

from spotchange.config.model import ModelSettings, VocabularySettings
from spotchange.errors import ConfigError
from spotchange.models.cross_modal import CrossModalTransformer
from spotchange.models.decoding.search import SpecialIds
from spotchange.models.difference_encoder import DifferenceEncoder, StandardCells
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.pcl_blocks import POST_NORM
from spotchange.models.pcl_heads import CellHead, ClassHeads
from spotchange.models.pcl_tokens import PclTokens
from spotchange.models.vision.build import image_encoder, resnet_arguments
from spotchange.models.vision.grid_features import FeaturesOnly, GridFeatures, PairFeatures
from spotchange.models.weights.initialise import initialise


def build_idc_pcl(settings: ModelSettings) -> IdcPcl:
    """IDC-PCL on a ResNet, on features that come from elsewhere, or on CLIP4IDC's pair encoder."""
    vision, captioner, vocabulary = settings.vision, settings.captioner, settings.vocabulary
    if captioner is None:
        raise ConfigError("idc-pcl needs model.captioner: its cross-modal transformer")
    if settings.text.width != captioner.width:
        raise ConfigError(
            f"idc-pcl reads words and images alike: model.text.width {settings.text.width} must equal "
            f"model.captioner.width {captioner.width}"
        )
    encoder = _encoder(settings)
    width, channels = captioner.width, encoder.channels
    rows, class_id, mask_id = _word_rows(vocabulary)
    layers: dict[str, Any] = {
        "blocks": settings.pcl.blocks,
        "width": width,
        "heads": captioner.heads,
        "inner": settings.pcl.inner or 4 * width,
        "dropout": captioner.dropout,
    }
    model = IdcPcl(
        image_size=vision.image_size,
        grid=vision.grid,
        encoder=encoder,
        standard=StandardCells(channels) if settings.pcl.standardise else None,
        words=PclTokens(
            channels=channels,
            cells=vision.grid[0] * vision.grid[1],
            vocabulary=rows,
            context=settings.text.context,
            width=width,
            dropout=captioner.dropout,
            class_id=class_id,
            mask_id=mask_id,
        ),
        difference=DifferenceEncoder(
            **layers,
            single_layers=settings.difference.single_layers,
            pair_layers=settings.difference.pair_layers,
        ),
        captioner=CrossModalTransformer(**layers, layers=captioner.decoder_layers, vocabulary=rows),
        special=SpecialIds(begin=vocabulary.begin, end=vocabulary.end, pad=vocabulary.pad),
        see_padding=settings.pcl.see_padding,
        **_heads(settings, width=width, channels=channels),
    )
    _initialise(model, settings)
    return model


def _word_rows(vocabulary: VocabularySettings) -> tuple[int, int, int]:
    """Rows of the word table, and which of them are [CLS] and [MASK]: further ones where the tokenizer has none."""
    rows = vocabulary.size
    special = []
    for known in (vocabulary.class_mark, vocabulary.mask):
        special.append(rows if known is None else known)
        rows += known is None
    return rows, special[0], special[1]


def _heads(settings: ModelSettings, *, width: int, channels: int) -> dict[str, Any]:
    heads = settings.heads
    return {
        "change_head": nn.Linear(2 * width, len(heads.change_types)) if heads.change else None,
        "cell_head": CellHead(width=width, channels=channels) if heads.pretraining else None,
        "matching_head": nn.Linear(3 * width, 2) if heads.pretraining else None,
        "class_heads": None if heads.classes is None else ClassHeads(width=width, classes=heads.classes),
    }


def _initialise(model: IdcPcl, settings: ModelSettings) -> None:
    """Published blocks start as torch starts linear layers; ours of BERT's kind, and CLIP's, as theirs do."""
    if settings.pcl.blocks == POST_NORM:
        initialise(model, any_width=True)
    elif settings.vision.backbone == "vit":
        initialise(model.encoder)


def _encoder(settings: ModelSettings) -> GridFeatures | FeaturesOnly | PairFeatures:
    vision = settings.vision
    if vision.backbone == "resnet":
        return GridFeatures(**resnet_arguments(vision))
    if vision.backbone == "features":
        return FeaturesOnly(vision.resnet_channels[vision.resnet_stage - 1])
    return PairFeatures(
        backbone=image_encoder(vision),
        grid=vision.grid,
        width=vision.width,
        heads=vision.heads,
        n_inter=vision.inter,
        output_width=vision.output_width,
        joint=vision.inter > 0,  # without blocks that see both, its cells are each image's own
        activation=vision.activation,
        mlp_ratio=vision.mlp_ratio,
    )
