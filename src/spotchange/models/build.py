"""From settings to a model: the one place that reads `ModelSettings`, and the one dict of architectures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from spotchange.config.model import ModelSettings, VocabularySettings
from spotchange.errors import ConfigError, ModelError
from spotchange.files import load_json
from spotchange.models.baselines.build import build_baseline
from spotchange.models.build_idc_pcl import build_idc_pcl
from spotchange.models.caption_decoder import CaptionDecoder
from spotchange.models.clip4idc import Clip4idc
from spotchange.models.decoding.search import SpecialIds
from spotchange.models.text_encoder import TextEncoder, TextTransformer, WordEmbedding
from spotchange.models.vision.build import image_encoder, resnet_arguments
from spotchange.models.vision.heads import ChangeHead, PatchChangeHead
from spotchange.models.vision.local_matching import LocalMatching
from spotchange.models.vision.pair_encoder import PairEncoder
from spotchange.models.vision.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocessor, normalisation_in
from spotchange.models.weights.initialise import initialise

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL_TOKENS = {  # role: the names it has in the tokenizers we know
    "begin": ("[BOS]", "<|startoftext|>", "<start_of_text>"),
    "end": ("[EOS]", "<|endoftext|>", "<end_of_text>"),
    "pad": ("[PAD]",),
    "mask": ("[MASK]",),
    "class_mark": ("[CLS]",),
    "unknown": ("[UNK]",),
}


def build_model(settings: ModelSettings, tokenizer: Tokenizer | None = None) -> nn.Module:
    """A model with random weights; with a tokenizer, of that tokenizer's vocabulary."""
    settings = settings_for(settings, tokenizer) if tokenizer is not None else settings
    if settings.architecture not in ARCHITECTURES:
        raise ConfigError(f"unknown architecture '{settings.architecture}': choose one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[settings.architecture](settings)


def settings_for(settings: ModelSettings, tokenizer: Tokenizer) -> ModelSettings:
    """The same settings with the facts of a tokenizer."""
    return settings.model_copy(update={"vocabulary": vocabulary_of(tokenizer)})


def vocabulary_of(tokenizer: Tokenizer) -> VocabularySettings:
    """Size and special ids. CLIP pads with id 0 and has no token for it."""
    found = {
        role: next((i for i in map(tokenizer.token_to_id, names) if i is not None), None)
        for role, names in _SPECIAL_TOKENS.items()
    }
    if found["begin"] is None or found["end"] is None:
        raise ModelError("this tokenizer has no begin and end tokens that spotchange knows")
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    return VocabularySettings(
        size=size,
        begin=found["begin"],
        end=found["end"],
        pad=found["pad"] or 0,
        mask=found["mask"],
        class_mark=found["class_mark"],
        unknown=found["unknown"],
    )


def preprocessor_for(settings: ModelSettings) -> Preprocessor:
    """The preprocessing a new model needs: CLIP's, or that of the network its backbone comes from."""
    size = settings.vision.image_size
    if settings.vision.backbone == "efficientnet-lite0":
        from spotchange.models.vision.efficientnet import MEAN, STD

        return Preprocessor(image_size=size, mean=MEAN, std=STD)
    if settings.vision.backbone == "vit":
        return Preprocessor(image_size=size)
    config = Path(settings.vision.resnet or "") / "preprocessor_config.json"
    if not config.is_file():
        return Preprocessor(image_size=size, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    mean, std = normalisation_in(load_json(config.read_text(encoding="utf-8")))
    return Preprocessor(image_size=size, mean=mean, std=std)


def _clip4idc(settings: ModelSettings, *, joint: bool = True, language: TextTransformer | None = None) -> Clip4idc:
    vision, text, captioner, vocabulary = settings.vision, settings.text, settings.captioner, settings.vocabulary
    model = Clip4idc(
        image_size=vision.image_size,
        encoder=_pair_encoder(settings, joint=joint),
        words=WordEmbedding(vocabulary=vocabulary.size, width=text.width, context=text.context),
        special=SpecialIds(begin=vocabulary.begin, end=vocabulary.end, pad=vocabulary.pad),
        text_encoder=TextEncoder(
            width=text.width,
            heads=text.heads,
            layers=text.layers,
            output_width=vision.output_width,
            activation=text.activation,
        )
        if text.encoder
        else None,
        captioner=CaptionDecoder(
            visual_width=vision.output_width,
            word_width=text.width,
            vocabulary=vocabulary.size,
            width=captioner.width,
            heads=captioner.heads,
            encoder_layers=captioner.encoder_layers,
            decoder_layers=captioner.decoder_layers,
            dropout=captioner.dropout,
            memory=captioner.memory,
            language=language,
        )
        if captioner is not None
        else None,
        change_head=ChangeHead(
            width=vision.width, change_types=len(settings.heads.change_types), by_heat=settings.heads.change_by_heat
        )
        if settings.heads.change
        else None,
        patch_change_head=PatchChangeHead(width=vision.width) if settings.heads.patch_change else None,
        noun_head=_noun_head(settings),
    )
    initialise(model)
    return model


def _noun_head(settings: ModelSettings) -> nn.Module | None:
    if not settings.heads.nouns:
        return None
    if settings.vision.backbone != "efficientnet-lite0":
        raise ConfigError("model.heads.nouns needs model.vision.backbone: efficientnet-lite0")
    from spotchange.models.vision.efficientnet import NounHead

    return NounHead(nouns=settings.heads.nouns, colours=settings.heads.colours)


def _pair_encoder(settings: ModelSettings, *, joint: bool) -> PairEncoder:
    vision = settings.vision
    return PairEncoder(
        backbone=_backbone(settings),
        grid=vision.grid,
        width=vision.width,
        heads=vision.heads,
        n_inter=vision.inter,
        output_width=vision.output_width,
        joint=joint,
        activation=vision.activation,
        mlp_ratio=vision.mlp_ratio,
        difference=vision.difference,
        matching=_matching(settings),
    )


def _matching(settings: ModelSettings) -> LocalMatching | None:
    vision = settings.vision
    if not vision.matching:
        return None
    if vision.backbone != "efficientnet-lite0":
        raise ConfigError("model.vision.matching needs model.vision.backbone: efficientnet-lite0")
    from spotchange.models.vision.efficientnet import FINE_CHANNELS

    return LocalMatching(channels=FINE_CHANNELS, width=vision.width, radius=vision.matching)


def _backbone(settings: ModelSettings) -> nn.Module:
    vision = settings.vision
    if vision.backbone == "resnet":
        from spotchange.models.vision.resnet import GridEncoder

        return GridEncoder(grid=vision.grid, width=vision.width, **resnet_arguments(vision))
    if vision.backbone == "efficientnet-lite0":
        from spotchange.models.vision.efficientnet import EfficientGridEncoder

        return EfficientGridEncoder(
            grid=vision.grid, width=vision.width, pretrained=vision.efficientnet, frozen=vision.efficientnet_frozen
        )
    return image_encoder(vision)


def _clip(settings: ModelSettings) -> Clip4idc:
    """Two towers for single images and texts: what CLIP4IDC and its baselines begin from."""
    _forbid_inter(settings)
    if not settings.text.encoder or settings.captioner is not None:
        raise ConfigError(
            "clip is two towers and nothing else: set model.text.encoder to true, model.captioner to null"
        )
    return _clip4idc(settings, joint=False)


def _clip_ft(settings: ModelSettings) -> Clip4idc:
    """CLIP alone on each image, the captioner on both."""
    _forbid_inter(settings)
    return _clip4idc(settings, joint=False)


def _ft1(settings: ModelSettings) -> Clip4idc:
    """CLIP-FT whose decoder reads all of CLIP's text transformer."""
    return _with_language(settings, settings.text.layers)


def _ft2(settings: ModelSettings) -> Clip4idc:
    """CLIP-FT whose decoder reads CLIP's embeddings through layers trained from scratch."""
    if settings.captioner is None:
        raise ConfigError("ft2 is a captioner: it needs model.captioner")
    return _with_language(settings, settings.captioner.language_layers)


def _with_language(settings: ModelSettings, layers: int) -> Clip4idc:
    _forbid_inter(settings)
    text = settings.text
    language = TextTransformer(width=text.width, heads=text.heads, layers=layers, activation=text.activation)
    return _clip4idc(settings, joint=False, language=language)


def _conventional(settings: ModelSettings) -> Clip4idc:
    """Grid features of both images, and the captioner."""
    if settings.vision.backbone != "resnet":
        raise ConfigError("the conventional baseline needs model.vision.backbone: resnet")
    _forbid_inter(settings)
    return _clip4idc(settings, joint=False)


def _forbid_inter(settings: ModelSettings) -> None:
    if settings.vision.inter:
        raise ConfigError(f"{settings.architecture} has no blocks that see both images: set model.vision.n_inter to 0")


ARCHITECTURES: dict[str, Callable[[ModelSettings], nn.Module]] = {
    "clip4idc": _clip4idc,
    "clip": _clip,
    "clip-ft": _clip_ft,
    "ft1": _ft1,
    "ft2": _ft2,
    "conventional": _conventional,
    "idc-pcl": build_idc_pcl,
    "baseline": build_baseline,
}
