"""Settings of training data: scenes generated as needed, data sets on disk, or a mix; and their augmentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from spotchange.config.base import Settings
from spotchange.config.data import ProtocolName
from spotchange.config.scenes import LookRandomness, SceneSettings, scene_preset
from spotchange.errors import ConfigError


class StreamSource(Settings):
    """Scenes drawn, rendered and described on the device while training runs; none is seen twice."""

    kind: Literal["stream"]
    preset: str = "clevr-change"
    """Rules of the world: clevr-change, clevr-dc, or either with -narrow behind it, half the camera's moves."""
    scenes: dict[str, Any] = Field(default_factory=dict)
    """Single rules changed, by their names in the preset, e.g. `camera_jitter: 0.5`; `look` is set by `randomize`."""
    randomize: float | dict[str, float] = 0.0
    """How strongly lamps, sky, ground, materials and camera vary from scene to scene: 0 is the benchmark's own look,
    1 the full spread; one number, or one for each part."""
    quality: Literal["fast", "faithful"] = "fast"
    """Effort of the renderer."""
    sentences: Literal["mixed", "plain"] = "mixed"
    """mixed: as the benchmark's references; plain: the object described fully, related to others only where needed."""
    kept: str | None = None
    """Folder to keep rendered scenes in, for many short runs on one machine: the first run that needs them makes them,
    every run reads them, whatever its seed; null: new scenes all the time."""
    kept_scenes: int = Field(default=33_830, ge=2)
    """How many are kept to train on."""

    @model_validator(mode="after")
    def _check_scenes(self) -> StreamSource:
        try:
            self.scene_settings()
        except ConfigError as error:
            raise ValueError(error.message) from error
        return self

    def scene_settings(self) -> SceneSettings:
        """The world's rules and looks together."""
        look = self.randomize
        parts = LookRandomness.uniform(look).model_dump() if isinstance(look, int | float) else look
        return scene_preset(self.preset, **{**self.scenes, "look": parts})


Unit = Literal["pairs", "sentences", "change-sentences"]
"""What an epoch runs over. pairs: every pair once, or every scene with its distractor, with one of its sentences drawn
at random (CLIP4IDC's captioning). sentences: every sentence of every pair once, each pair by itself (IDC-PCL).
change-sentences: every sentence of a change once, with the scene's distractor beside it (CLIP4IDC's adaptation)."""


class DatasetSource(Settings):
    """A data set on disk (`DIR/SPLIT/metadata.jsonl`), decoded once into a memory-mapped cache."""

    kind: Literal["dataset"]
    path: str
    """The data set's folder."""
    split: str = "train"
    """Folder of the data set to read."""
    cache: str | None = None
    """Folder of the decoded images; null: beside the data set."""
    protocol: ProtocolName = "pairs"
    """What counts as a caption, e.g. spot-the-diff-multi joins all sentences of a pair."""
    task: Literal["pairs", "single", "classes"] = "pairs"
    """What pre-training of idc-pcl does with it: pairs; single images (each stands on both sides) with captions;
    single images with a column `class_id`."""
    unit: Unit = "pairs"
    """What an epoch runs over: pairs, sentences or change-sentences."""
    workers: int = Field(default=2, ge=0)
    """Threads that prepare batches ahead."""


class FeatureSource(Settings):
    """Grid features of a frozen network, made once by `spotchange data features`."""

    kind: Literal["features"]
    path: str
    """The feature folder."""
    scenes: int | None = Field(default=None, ge=2)
    """Where the folder does not exist yet: make it first, from so many generated scenes; null: refuse."""
    task: Literal["pairs", "single", "classes"] = "pairs"
    """What to make it of: pairs; images with descriptions; objects cut out, with classes."""
    of: StreamSource = StreamSource(kind="stream")
    """The rules, looks and sentences of those scenes."""
    unit: Unit = "pairs"
    """What an epoch runs over: pairs, sentences or change-sentences."""
    seed: int = 42
    """Of those scenes, whatever the run's own seed is: all runs share the folder."""


class EverydaySource(Settings):
    """Everyday things pasted on photos and rooms while training runs; none is seen twice."""

    kind: Literal["everyday"]
    library: str
    """Folder of things and backgrounds, as `spotchange scenes add-objects` makes it."""
    split: Literal["train", "held-out"] = "train"
    """Things and backgrounds of this split alone."""
    shares: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """How often kinds of change are drawn, relative to each other, where it differs from the usual."""
    changes: int = 1
    """How many things of a scene change: one, as the model says one kind of change a pair. `generate --world everyday
    --changes 3` makes data sets where several do."""
    most_objects: int | None = Field(default=None, ge=1)
    """Use only so many things, for a quick look."""
    most_backgrounds: int | None = Field(default=None, ge=1)
    """And so many backgrounds."""

    @field_validator("changes")
    @classmethod
    def _check_changes(cls, changes: int) -> int:
        if changes != 1:
            raise ValueError("training takes pairs with one change: the model says one kind of change a pair")
        return changes


class MixedSource(Settings):
    """Whole batches from several sources in turn, drawn by weight."""

    kind: Literal["mix"]
    sources: list[Annotated[StreamSource | DatasetSource | FeatureSource, Field(discriminator="kind")]] = Field(
        min_length=1
    )
    weights: list[Annotated[float, Field(gt=0)]] | None = None
    """How often each is drawn, relative to the others; null: equally."""

    @model_validator(mode="after")
    def _check_weights(self) -> MixedSource:
        if self.weights is not None and len(self.weights) != len(self.sources):
            raise ValueError(f"{len(self.sources)} sources need as many weights, not {len(self.weights)}")
        return self


DataSource = Annotated[
    StreamSource | DatasetSource | FeatureSource | EverydaySource | MixedSource, Field(discriminator="kind")
]


class AugmentSettings(Settings):
    """Random changes of the images on the device; whatever they do, the caption stays true."""

    crop: float = Field(default=0.0, ge=0, le=0.5)
    """Largest part of the area cut away, the same window of both images, never through the changed object;
    where its place is unknown at most a tenth."""
    brightness: float = Field(default=0.0, ge=0, lt=1)
    """Largest relative change, the same for both images of a pair."""
    contrast: float = Field(default=0.0, ge=0, lt=1)
    """The same for contrast."""
    saturation: float = Field(default=0.0, ge=0, lt=1)
    """The same for saturation."""
    hue: float = Field(default=0.0, ge=0, le=0.5)
    """Turns colours into others: only for captions that name none."""
    noise: float = Field(default=0.0, ge=0, le=0.5)
    """Largest standard deviation of Gaussian noise, images being 0 to 1; drawn for each image."""
    erase: float = Field(default=0.0, ge=0, le=1)
    """Probability of a gray rectangle at the same place of both images, never over the changed object."""
    blur: float = Field(default=0.0, ge=0, le=1)
    """Probability of a slight blur of both images."""
    symmetries: bool = False
    """Mirror and turn both images, and exchange left and right, top and bottom in the caption: only for images
    seen from above, where any side may be up."""
    separate: float = Field(default=0.0, ge=0, le=1)
    """How far brightness, contrast and saturation may differ between the two images, as a part of their range."""

    @property
    def active(self) -> bool:
        """Whether any of it is switched on."""
        return self.symmetries or self.repaints

    @property
    def repaints(self) -> bool:
        """Whether pixels change otherwise than by mirroring and turning."""
        return any(value for name, value in self.model_dump().items() if name not in ("separate", "symmetries"))


def source_from_shorthand(value: Any) -> Any:
    """A text is a data set's folder, `stream` the generated scenes; mappings without a kind are told apart by key."""
    if isinstance(value, str):
        return {"kind": "stream"} if value == "stream" else {"kind": "dataset", "path": value}
    if isinstance(value, list):
        return {"kind": "mix", "sources": [source_from_shorthand(each) for each in value]}
    if isinstance(value, dict):
        if "kind" not in value:
            value = {"kind": "dataset" if "path" in value else "mix" if "sources" in value else "stream", **value}
        if isinstance(value.get("sources"), list):
            value = {**value, "sources": [source_from_shorthand(each) for each in value["sources"]]}
    return value
