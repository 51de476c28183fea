"""From settings to IDC-PCL: `build.py`'s part for this architecture."""

from __future__ import annotations

from torch import nn

from spotchange.config.model import ModelSettings
from spotchange.errors import ConfigError
from spotchange.models.cross_modal import CrossModalTransformer
from spotchange.models.decoding.search import SpecialIds
from spotchange.models.difference_encoder import DifferenceEncoder
from spotchange.models.idc_pcl import IdcPcl
from spotchange.models.text_encoder import WordEmbedding
from spotchange.models.vision.build import picture_encoder, resnet_arguments
from spotchange.models.vision.grid_features import GridFeatures, PairFeatures
from spotchange.models.weights.initialise import initialise


def build_idc_pcl(settings: ModelSettings) -> IdcPcl:
    """IDC-PCL on a ResNet or on CLIP4IDC's pair encoder."""
    vision, captioner, vocabulary = settings.vision, settings.captioner, settings.vocabulary
    if captioner is None:
        raise ConfigError("idc-pcl needs model.captioner: its cross-modal transformer")
    if settings.text.width != captioner.width:
        raise ConfigError(
            f"idc-pcl reads words and pictures alike: model.text.width {settings.text.width} must equal "
            f"model.captioner.width {captioner.width}"
        )
    encoder = _encoder(settings)
    model = IdcPcl(
        image_size=vision.image_size,
        grid=vision.grid,
        encoder=encoder,
        difference=DifferenceEncoder(
            channels=encoder.channels,
            cells=vision.grid[0] * vision.grid[1],
            width=captioner.width,
            heads=captioner.heads,
            single_layers=settings.difference.single_layers,
            pair_layers=settings.difference.pair_layers,
            dropout=captioner.dropout,
        ),
        # One more than a sentence has: [CLS] stands before it.
        words=WordEmbedding(vocabulary=vocabulary.size, width=captioner.width, context=settings.text.context + 1),
        captioner=CrossModalTransformer(
            width=captioner.width,
            heads=captioner.heads,
            layers=captioner.decoder_layers,
            dropout=captioner.dropout,
            vocabulary=vocabulary.size,
        ),
        special=SpecialIds(begin=vocabulary.begin, end=vocabulary.end, pad=vocabulary.pad),
        change_head=nn.Linear(2 * captioner.width, len(settings.heads.change_types)) if settings.heads.change else None,
    )
    initialise(model, any_width=True)
    return model


def _encoder(settings: ModelSettings) -> GridFeatures | PairFeatures:
    vision = settings.vision
    if vision.backbone == "resnet":
        return GridFeatures(**resnet_arguments(vision))
    return PairFeatures(
        backbone=picture_encoder(vision),
        grid=vision.grid,
        width=vision.width,
        heads=vision.heads,
        n_inter=vision.inter,
        output_width=vision.output_width,
        activation=vision.activation,
        mlp_ratio=vision.mlp_ratio,
    )
