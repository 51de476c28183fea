"""Settings of a model's architecture; `models/build.py` is the only reader."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from spotchange.config.base import Settings
from spotchange.config.presets import PRESETS, merged

# A file may say anything; beyond these a model would be asked for that no machine holds.
WIDEST, DEEPEST = 65_536, 1_000
Side = Annotated[int, Field(ge=1, le=8192)]
Channels = Annotated[int, Field(ge=1, le=WIDEST)]
Depth = Annotated[int, Field(ge=0, le=DEEPEST)]

Architecture = Literal["clip4idc", "clip", "clip-ft", "ft1", "ft2", "conventional", "idc-pcl", "baseline"]


class VisionSettings(Settings):
    """The pair encoder."""

    backbone: Literal["vit", "resnet", "efficientnet-lite0", "features"] = "vit"
    """What sees one image: a vision transformer, or a CNN backbone with inter layers on top. features: nothing, the
    model reads grid features made elsewhere (IDC-PCL as published, imported without its network)."""
    image_size: tuple[Side, Side] = (224, 224)
    """Height and width of the images the model sees, in pixels."""
    stem: Literal["clip", "conv"] = "clip"
    """How pixels become patches: CLIP's one convolution, or small convolutions first (for training from scratch)."""
    patch: int = Field(default=32, ge=1, le=1024)
    """Side of a patch, in pixels."""
    stem_channels: tuple[Channels, ...] = Field(default=(64, 128), max_length=8)
    """Channels of the conv stem's 3x3 convolutions, each of which halves the image."""
    width: int = Field(default=768, ge=1, le=WIDEST)
    heads: int = Field(default=12, ge=1)
    layers: int = Field(default=12, ge=0, le=DEEPEST)
    """Transformer blocks in all, intra and inter."""
    n_inter: int | None = Field(default=None, ge=0, le=DEEPEST)
    """Blocks, counted from the last, that look at both images at once; null: a quarter of the layers."""
    mlp_ratio: int = Field(default=4, ge=1, le=64)
    difference: bool = False
    """Give every token also the difference to its place in the other image; not in the paper, learns faster."""
    matching: int = Field(default=0, ge=0, le=8)
    """Give every token also what differs from its best match in the other image within so many cells of 1/8 of the
    resolution, and how alike the cells there are: camera motion is no change then. 0: leave it out. Needs
    efficientnet-lite0; not in the paper."""
    activation: Literal["quick_gelu", "gelu"] = "quick_gelu"
    output_width: int = Field(default=512, ge=1, le=WIDEST)
    """Width of the projected tokens that the captioner reads and of the pair's embedding."""
    resnet: str | None = None
    """Where a resnet backbone's weights come from when a run starts: a folder or a hub name; null: random."""
    resnet_depths: tuple[Depth, ...] = Field(default=(3, 4, 6, 3), max_length=8)
    """Blocks of each stage of a resnet backbone: ResNet-50 is 3, 4, 6, 3; ResNet-101 is 3, 4, 23, 3."""
    resnet_channels: tuple[Channels, ...] = Field(default=(256, 512, 1024, 2048), max_length=8)
    """Channels of each stage of a resnet backbone."""
    resnet_stride_first: bool = False
    """Where a resnet block halves the grid: in its first 1x1 convolution (the original), or in the 3x3."""
    resnet_stage: int = Field(default=4, ge=1, le=4)
    """Stage whose grid is read: 4 has 7x7 cells for 224x224 pixels, 3 has 14x14."""
    resnet_fixed_statistics: bool = False
    """Keep the batch statistics that a resnet came with while its weights learn: where batches are too few to measure
    them anew."""
    efficientnet: str | None = None
    """Where an efficientnet-lite0 backbone's weights come from when a run starts: a file; null: random."""
    efficientnet_frozen: int = Field(default=3, ge=0, le=16)
    """Blocks of an efficientnet-lite0 backbone that stay as they came, from the first; edges and textures need no
    more learning, and they are the most pixels."""
    freeze_backbone: bool = False
    """Keep a resnet backbone as it came (the conventional baseline does)."""

    @property
    def inter(self) -> int:
        """Blocks that look at both images."""
        return self.layers // 4 if self.n_inter is None else self.n_inter

    @property
    def intra(self) -> int:
        """Blocks that look at one image."""
        return self.layers - self.inter

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches (or of the CNN backbone's cells) in one image."""
        height, width = self.image_size
        if self.backbone in ("resnet", "features"):
            stride = 2 ** (self.resnet_stage + 1)
            return -(-height // stride), -(-width // stride)
        if self.backbone == "efficientnet-lite0":
            return -(-height // 16), -(-width // 16)
        return height // self.patch, width // self.patch

    @model_validator(mode="after")
    def _check(self) -> VisionSettings:
        if self.inter > self.layers:
            raise ValueError(f"n_inter is {self.inter} but there are only {self.layers} layers")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.backbone == "vit" and (self.image_size[0] % self.patch or self.image_size[1] % self.patch):
            raise ValueError(f"image_size {list(self.image_size)} is not a multiple of patch {self.patch}")
        if self.backbone == "vit" and self.stem == "conv" and self.patch % 2 ** len(self.stem_channels):
            raise ValueError(f"patch {self.patch} cannot be halved {len(self.stem_channels)} times by the conv stem")
        return self


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
