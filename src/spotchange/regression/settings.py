"""Tolerances of a visual-regression run: `spotchange.yaml` with per-glob rules, and the command line on top."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from spotchange.comparison import ComparisonOptions
from spotchange.config.base import Settings, read_yaml
from spotchange.errors import ConfigError

CONFIG_FILE = "spotchange.yaml"
PixelBox = tuple[int, int, int, int]


class Tolerances(Settings):
    """What may differ. A value that is not given is taken from the rule or the settings above."""

    preset: Literal["exact", "tolerant", "photos"] | None = None
    """exact: any difference counts; tolerant: threshold 0.1 without anti-aliasing; photos: camera and light aligned."""
    pixel_threshold: float | None = Field(default=None, ge=0, le=1)
    """YIQ distance (0 to 1) up to which a pixel does not count, as pixelmatch and odiff define it."""
    ignore_antialiasing: bool | None = None
    """Leave out pixels that look like smoothed edges."""
    max_diff_pixels: int | None = Field(default=None, ge=0)
    """Differing pixels up to which a pair is unchanged."""
    max_diff_ratio: float | None = Field(default=None, ge=0, le=1)
    """Share of differing pixels up to which a pair is unchanged."""
    ignore: tuple[PixelBox, ...] = ()
    """Rectangles [x, y, width, height] that are not compared."""
    scale: bool | None = None
    """Scale after to before's size first; otherwise another size is a change."""


class Rule(Tolerances):
    """Tolerances for some files."""

    match: str
    """Glob of paths relative to the folders, such as `checkout/*.png`."""


class CompareSettings(Tolerances):
    """The section `compare` of `spotchange.yaml`."""

    rules: tuple[Rule, ...] = ()
    """For files that match, in order: a later rule wins; ignored rectangles add up."""
    learned: tuple[Rule, ...] = ()
    """Written by `compare --learn-ignore`: rectangles that flicker between captures of the same page."""

    def options_for(self, name: str, given: Tolerances) -> ComparisonOptions:
        """The tolerances of one file: settings, then rules that match, then what the command line gave."""
        layers: list[Tolerances] = [self]
        layers += [rule for rule in (*self.learned, *self.rules) if fnmatchcase(name, rule.match)]
        layers.append(given)
        values: dict[str, Any] = {}
        boxes: list[PixelBox] = []
        for layer in layers:
            chosen = {key: getattr(layer, key) for key in Tolerances.model_fields if key != "ignore"}
            values |= {key: value for key, value in chosen.items() if value is not None}
            boxes += layer.ignore
        return ComparisonOptions(**values, ignore=tuple(dict.fromkeys(boxes)))


def read_settings(path: Path | None) -> CompareSettings:
    """The settings file that was named, else `spotchange.yaml` of this folder, else the defaults."""
    if path is None:
        path = Path(CONFIG_FILE)
        if not path.is_file():
            return CompareSettings()
    values = read_yaml(path)
    unknown = sorted(set(values) - {"compare"})
    if unknown:
        raise ConfigError(f"{path}: unknown section '{unknown[0]}'", hint="compare settings stand under 'compare:'")
    section = values.get("compare") or {}
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: 'compare' must hold settings as 'key: value' lines")
    return CompareSettings.from_mapping(section, source=str(path))
