"""Settings of a model's architecture; `models/build.py` is the only reader."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from spotchange.config.base import Settings
from spotchange.config.presets import PRESETS, merged
from spotchange.config.vision import DEEPEST, WIDEST, VisionSettings

Architecture = Literal["clip4idc", "clip", "clip-ft", "ft1", "ft2", "conventional", "idc-pcl", "baseline"]


class TextSettings(Settings):
    """CLIP's words: the embeddings, and the text encoder that adaptation and retrieval need."""

    encoder: bool = True
    """Whether the model has a text encoder; models shipped for captioning alone leave it out."""
    width: int = Field(default=512, ge=1, le=WIDEST)
    """Width of the word embeddings."""
    heads: int = Field(default=8, ge=1)
    layers: int = Field(default=12, ge=0, le=DEEPEST)
    activation: Literal["quick_gelu", "gelu"] = "quick_gelu"
    context: int = Field(default=77, ge=2, le=65536)
    """Longest sentence in tokens, begin and end tokens included."""


class CaptionerSettings(Settings):
    """The transformer that reads visual tokens and writes words."""

    width: int = Field(default=512, ge=1, le=WIDEST)
    heads: int = Field(default=8, ge=1)
    encoder_layers: int = Field(default=3, ge=0, le=DEEPEST)
    decoder_layers: int = Field(default=3, ge=1, le=DEEPEST)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    memory: Literal["layerwise", "last"] = "layerwise"
    """layerwise: encoder layer i feeds decoder layer i, as published; last: the last feeds all."""
    language_layers: int = Field(default=3, ge=1, le=DEEPEST)
    """FT2's layers of language encoder, trained from scratch."""

    @model_validator(mode="after")
    def _check(self) -> CaptionerSettings:
        if self.memory == "layerwise" and self.encoder_layers != self.decoder_layers:
            raise ValueError("memory 'layerwise' needs as many encoder_layers as decoder_layers")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class DifferenceSettings(Settings):
    """IDC-PCL's image difference encoder, as wide as `captioner`; 0 and 0 layers leave it out."""

    single_layers: int = Field(default=1, ge=0, le=DEEPEST)
    """Layers that see the cells of one image."""
    pair_layers: int = Field(default=1, ge=0, le=DEEPEST)
    """Layers that see the cells of both."""


class PclSettings(Settings):
    """Where IDC-PCL may leave the published program; the defaults are the program's. Read by idc-pcl only."""

    blocks: Literal["pre-norm", "post-norm"] = "pre-norm"
    """pre-norm: the published blocks; post-norm: BERT's, with its random start."""
    inner: int | None = Field(default=None, ge=1, le=WIDEST)
    """Width inside the feed-forward parts; null: four times `captioner.width`, as published."""
    standardise: bool = False
    """Give every channel of the grid features mean 0 and deviation 1 over the batch."""
    see_padding: bool = True
    """Pre-training looks at padding, as published; false: nobody does."""


class BaselineSettings(Settings):
    """One of the published systems that `models/baselines` rebuilds."""

    system: str
    """Its name in the table of `models/baselines/build.py`, e.g. duda, scorer-cbr."""
    as_published: bool = False
    """Repeat what the published program does by mistake; each system's file says what that is."""
    sizes: dict[str, int | float] = Field(default_factory=dict)
    """Arguments of the system that differ from the published ones, e.g. `hidden: 256`."""


class HeadSettings(Settings):
    """Answers beside the sentence, and what only training reads."""

    change: bool = False
    """Say the kind of change, "none" among them."""
    change_by_heat: bool = False
    """Read the kind of change where the patch head sees it, not from the mean of all patches; needs patch_change."""
    patch_change: bool = False
    """Say for every patch whether it belongs to the change; without it the heat map is class-token attention."""
    pretraining: bool = False
    """IDC-PCL's heads of pre-training: masked cells (needed by the task mvcl), and the published matching head, which
    no published recipe trains."""
    classes: int | None = Field(default=None, ge=2)
    """IDC-PCL's heads for classification data: how many classes there are; null: no such heads."""
    change_types: tuple[str, ...] = ("none", "color", "texture", "add", "drop", "move")
    """Kinds of change, "none" first."""
    nouns: int = Field(default=0, ge=0, le=1_000_000)
    """Names for single things, and one for what has none, from a second look at a window round each; 0: no such look.
    Needs efficientnet-lite0."""
    colours: int = Field(default=12, ge=1, le=1_000)
    """Colours that the second look tells apart."""

    @model_validator(mode="after")
    def _check(self) -> HeadSettings:
        if not self.change_types or self.change_types[0] != "none":
            raise ValueError('change_types must begin with "none"')
        return self


class VocabularySettings(Settings):
    """What the model must know of its tokenizer; `build_model(settings, tokenizer)` fills it in."""

    size: int = Field(default=49408, ge=1, le=10_000_000)
    begin: int = 49406
    end: int = 49407
    pad: int = 0
    mask: int | None = None
    """[MASK]; null: the tokenizer has none, and idc-pcl adds a row of its own for it."""
    class_mark: int | None = None
    """[CLS], likewise."""
    unknown: int | None = None
    """[UNK]; null: the tokenizer has none."""


class ModelSettings(Settings):
    """Architecture of one model. The defaults are CLIP4IDC's final version on CLIP ViT-B/32."""

    architecture: Architecture = "clip4idc"
    """Which system the parts below make up."""
    vision: VisionSettings = VisionSettings()
    text: TextSettings = TextSettings()
    captioner: CaptionerSettings | None = CaptionerSettings()
    """null: no captioner (adaptation and retrieval only). IDC-PCL: `decoder_layers` are those of its cross-modal
    transformer."""
    difference: DifferenceSettings = DifferenceSettings()
    """Read by idc-pcl only."""
    pcl: PclSettings = PclSettings()
    baseline: BaselineSettings | None = None
    """Read by baseline only, which needs it."""
    heads: HeadSettings = HeadSettings()
    vocabulary: VocabularySettings = VocabularySettings()

    @model_validator(mode="before")
    @classmethod
    def _start_from_preset(cls, values: Any) -> Any:
        """`preset: NAME` stands for that preset's settings; what is written beside it wins."""
        if isinstance(values, str):
            values = {"preset": values}
        if isinstance(values, dict) and "preset" in values:
            values = dict(values)
            name = values.pop("preset")
            if name not in PRESETS:
                raise ValueError(f"unknown preset '{name}': choose one of {', '.join(PRESETS)}")
            return merged(PRESETS[name], values)
        return values
