"""Settings of what sees the images: the pair encoder's half of a model's architecture."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from spotchange.config.base import Settings

# A file may say anything; beyond these a model would be asked for that no machine holds.
WIDEST, DEEPEST = 65_536, 1_000
Side = Annotated[int, Field(ge=1, le=8192)]
Channels = Annotated[int, Field(ge=1, le=WIDEST)]
Depth = Annotated[int, Field(ge=0, le=DEEPEST)]


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
