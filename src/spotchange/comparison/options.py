"""What counts as a change: the tolerances of a comparison, alone or as a preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spotchange.errors import InputError
from spotchange.results import Box

Preset = Literal["exact", "tolerant", "photos"]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a pixel may differ before it counts."""

    pixel_threshold: float
    """YIQ distance from 0 to 1, as pixelmatch and odiff define it; a pixel counts if it is further away."""
    ignore_antialiasing: bool
    """Whether pixels that look like smoothed edges are left out, as pixelmatch finds them."""


PRESETS: dict[str, Tolerance] = {
    "exact": Tolerance(pixel_threshold=0.0, ignore_antialiasing=False),
    "tolerant": Tolerance(pixel_threshold=0.1, ignore_antialiasing=True),
    # Camera and light are taken out first; what remains is judged by the images' own noise.
    "photos": Tolerance(pixel_threshold=0.0, ignore_antialiasing=False),
}


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """Settings of one comparison. What is None is the preset's."""

    preset: Preset = "exact"
    pixel_threshold: float | None = None
    ignore_antialiasing: bool | None = None
    max_diff_pixels: int = 0
    """Images with at most this many differing pixels are unchanged."""
    max_diff_ratio: float = 0.0
    """Images with at most this share of differing pixels are unchanged. Either limit suffices."""
    ignore: tuple[Box, ...] = ()
    """Rectangles that are not judged, the same place in both images."""
    scale: bool = False
    """Bring after to before's size first; otherwise another size is a change."""
    describe: bool = True
    """Whether to find out what happened; without it only the verdict and the mask are made."""
    read_text: bool | None = None
    """Read changed text (extra `text`); None: where the extra is installed."""

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise InputError(f"unknown preset {self.preset!r}", hint=f"one of {', '.join(PRESETS)}")
        if self.pixel_threshold is not None and not 0 <= self.pixel_threshold <= 1:
            raise InputError(f"the pixel threshold must be from 0 to 1, not {self.pixel_threshold}")
        if self.max_diff_pixels < 0:
            raise InputError(f"the number of differing pixels cannot be {self.max_diff_pixels}")
        if not 0 <= self.max_diff_ratio <= 1:
            raise InputError(f"the share of differing pixels must be from 0 to 1, not {self.max_diff_ratio}")
        if any(width < 1 or height < 1 for _, _, width, height in self.ignore):
            raise InputError("an ignored rectangle needs a width and a height of at least one pixel")

    @property
    def tolerance(self) -> Tolerance:
        """The preset's tolerance with what was set by hand."""
        preset = PRESETS[self.preset]
        threshold, antialiasing = self.pixel_threshold, self.ignore_antialiasing
        return Tolerance(
            pixel_threshold=preset.pixel_threshold if threshold is None else threshold,
            ignore_antialiasing=preset.ignore_antialiasing if antialiasing is None else antialiasing,
        )
