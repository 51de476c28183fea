"""Settings of generated scenes: the rules of the world, how it may look, and the two benchmarks as presets."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from spotchange.config.base import Settings
from spotchange.errors import ConfigError

ChangeName = Literal["color", "texture", "add", "drop", "move"]
CHANGE_NAMES: tuple[ChangeName, ...] = ("color", "texture", "add", "drop", "move")
Strength = Annotated[float, Field(ge=0.0, le=1.0)]


class LookRandomness(Settings):
    """How strongly the look varies from scene to scene: 0 is the benchmark's own look, 1 the full spread."""

    lamps: Strength = 0.0
    """Power and colour of the three area lamps."""
    sun: Strength = 0.0
    """Power and colour of the sun."""
    sky: Strength = 0.0
    """Light from the sky, black in the benchmark."""
    ground: Strength = 0.0
    """Tone and tint of the ground."""
    materials: Strength = 0.0
    """Roughness, gloss, sheen, tint and saturation of the objects."""
    exposure: Strength = 0.0
    """Brightness of all three images of a scene together."""
    blur: Strength = 0.0
    """Softness of an image, drawn for each image."""
    noise: Strength = 0.0
    """Sensor noise, drawn for each pixel."""
    jpeg: Strength = 0.0
    """JPEG compression; 1 goes down to quality 30."""

    @classmethod
    def uniform(cls, strength: float) -> LookRandomness:
        """The same strength for every part."""
        return cls.from_mapping(dict.fromkeys(cls.model_fields, strength), source="look")


class SceneSettings(Settings):
    """The rules a scene keeps; the defaults are those of CLEVR-Change."""

    retired: ClassVar[dict[str, Any]] = {"tries": 50, "lamp_jitter": 1.0, "min_visible_pixels": 400}
    min_objects: int = Field(default=3, ge=2, le=10)
    max_objects: int = Field(default=10, ge=2, le=10)
    area: float = Field(default=3.0, gt=0.0, le=6.0)
    """Objects stand at x and y from -area to area."""
    gap: float = Field(default=0.25, ge=0.0, le=3.0)
    """Least distance between the outlines of two objects, each taken as a circle."""
    margin: float = Field(default=0.4, ge=0.0, le=3.0)
    """Least distance of two centres along the first camera's left-right and front-behind directions."""
    changes: tuple[ChangeName, ...] = CHANGE_NAMES
    """Kinds of change, all equally often; one that is named twice comes twice as often."""
    move_distance: float = Field(default=1.0, ge=0.0, le=8.0)
    """A moved object goes at least this far."""
    camera_jitter: float = Field(default=2.0, ge=0.0, le=3.0)
    """Each axis of the first camera, and of the two others on top of it, moves by up to this much. Fitted to images
    of the original (docs/decisions/0010-camera.md)."""
    camera_turn: float = Field(default=0.0, ge=0.0, le=180.0)
    """The second images' cameras go around the scene by up to this many degrees either way."""
    look: LookRandomness = LookRandomness()

    @field_validator("changes", mode="before")
    @classmethod
    def _known_changes(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"name at least one change of {', '.join(CHANGE_NAMES)}")
        for name in value:
            if name not in CHANGE_NAMES:
                close = difflib.get_close_matches(str(name), CHANGE_NAMES, n=1)
                meant = f", did you mean '{close[0]}'?" if close else f" (known: {', '.join(CHANGE_NAMES)})"
                raise ValueError(f"unknown change '{name}'{meant}")
        return tuple(value)

    @model_validator(mode="after")
    def _objects_fit(self) -> Self:
        if self.min_objects > self.max_objects:
            raise ValueError(f"min_objects ({self.min_objects}) is more than max_objects ({self.max_objects})")
        most = self.max_objects + ("add" in self.changes)
        where = f"do not fit into an area of {self.area:g}"
        # Centres stand `margin` apart along a direction in which the square is at most its diagonal wide.
        if (most - 1) * self.margin > 2.0 * 2.0**0.5 * self.area:
            raise ValueError(
                f"{most} objects with a margin of {self.margin:g} do not fit into an area of {self.area:g}"
            )
        # Small discs with half a gap around them, against the square grown by the same: a bound no packing passes.
        reach = 0.35 + self.gap / 2.0
        if most * 3.1416 * reach**2 > (2.0 * (self.area + reach)) ** 2:
            raise ValueError(f"{most} objects with a gap of {self.gap:g} {where}")
        if "move" in self.changes and self.move_distance > 2.0 * 2.0**0.5 * self.area:
            raise ValueError(f"an object cannot move {self.move_distance:g} far in an area of {self.area:g}")
        return self


SPLIT_SCENES = {"train": 33_830, "val": 1_988, "test": 3_985}
"""Scenes in the splits of the official CLEVR-Change; each gives two pairs."""

NARROW_CAMERA = 1.0
"""What the benchmark's description says of the camera, and what scenes had before its images were measured."""

PRESETS: dict[str, dict[str, Any]] = {
    "clevr-change": {},
    "clevr-dc": {"camera_turn": 60.0},
    "clevr-change-narrow": {"camera_jitter": NARROW_CAMERA},
    "clevr-dc-narrow": {"camera_turn": 60.0, "camera_jitter": NARROW_CAMERA},
}


def scene_preset(name: str, **changes: Any) -> SceneSettings:
    """The settings of a preset, with single ones changed."""
    if name not in PRESETS:
        raise ConfigError(f"unknown preset '{name}'", hint=f"known presets: {', '.join(PRESETS)}")
    return SceneSettings.from_mapping(PRESETS[name] | changes, source=f"preset {name}")


class DatasetPlan(Settings):
    """A data set to write: which scenes, how their images look, how much is said about them."""

    preset: str = "clevr-change"
    seed: int = Field(default=0, ge=0, lt=2**48)
    split: Literal["train", "val", "test"] = "train"
    width: int = Field(default=480, ge=32, le=4096)
    height: int = Field(default=320, ge=32, le=4096)
    quality: Literal["fast", "faithful"] = "faithful"
    references: int = Field(default=6, ge=6, le=9)
    """Different captions of each pair; of "no change" there are nine."""
    masks: bool = False
    """Write a mask of the changed object for every change pair."""
    scenes: SceneSettings = SceneSettings()


def proportional_scenes(scenes: int) -> dict[str, int]:
    """How many of `scenes` go to each split, in the official proportions."""
    total = sum(SPLIT_SCENES.values())
    shares = {split: scenes * size // total for split, size in SPLIT_SCENES.items()}
    shares["train"] += scenes - sum(shares.values())
    return shares
