"""The values that travel between layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

SCHEMA_VERSION = 2
Box = tuple[int, int, int, int]  # x, y, width, height in pixels of the image given


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another sentence the model found, with its mean log-probability a word."""

    text: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Region:
    """A place in one of the images where something changed."""

    image: Literal["before", "after"]
    box: Box
    score: float


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that happened, with its places in both images."""

    kind: str
    """A key of `comparison.KINDS`."""
    sentence: str
    boxes_before: tuple[Box, ...] = ()
    boxes_after: tuple[Box, ...] = ()
    pixels: int = 0
    """Differing pixels it explains."""
    shift: tuple[int, int] | None = None
    """Pixels the content moved right and down, where it moved."""
    colours: tuple[str, str] | None = None
    """Names of the old and the new colour, where it was recoloured."""
    text_before: str | None = None
    text_after: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "kind": self.kind,
            "sentence": self.sentence,
            "boxes_before": [list(box) for box in self.boxes_before],
            "boxes_after": [list(box) for box in self.boxes_after],
            "pixels": self.pixels,
            "shift": list(self.shift) if self.shift else None,
            "colours": list(self.colours) if self.colours else None,
            "text_before": self.text_before,
            "text_after": self.text_after,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Finding:
        """What `to_dict` gave."""
        boxes = {side: tuple(map(tuple, values[side])) for side in ("boxes_before", "boxes_after")}
        pairs = {name: tuple(values[name]) if values[name] else None for name in ("shift", "colours")}
        return cls(**values | boxes | pairs)


@dataclass(frozen=True, kw_only=True, repr=False)
class CaptionResult:
    """What is said about two images; `to_dict` is the JSON of the command line, the batch file and the API."""

    caption: str
    changed: bool
    change_score: float
    change_type: str | None
    alternatives: tuple[Alternative, ...] = ()
    differences: tuple[str, ...] = ()
    """Every single difference, one sentence each, where an answerer was asked for all of them."""
    regions: tuple[Region, ...] = ()
    familiarity: float | None = None
    source: str = "model"
    """Who answered: "model" (a captioning model), "pixels" (the comparison), or another answerer's kind."""
    warnings: tuple[str, ...] = ()
    model: str = ""
    seconds: float = 0.0
    identical: bool = False
    """Every pixel is the same."""
    preset: str | None = None
    """The tolerances of the verdict, where the comparison gave it: exact, tolerant or photos."""
    findings: tuple[Finding, ...] = ()
    """What the comparison saw, most important first."""
    diff_pixels: int | None = None
    diff_ratio: float | None = None
    largest_difference: float | None = None
    """Pixels that count as differing, their share, and the largest YIQ distance (0 to 1); None without comparison."""
    schema_version: int = field(default=SCHEMA_VERSION)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, `schema_version` first."""
        values = asdict(self)
        values["alternatives"] = [asdict(each) for each in self.alternatives]
        values["regions"] = [asdict(each) | {"box": list(each.box)} for each in self.regions]
        values["differences"] = list(self.differences)
        values["warnings"] = list(self.warnings)
        values["findings"] = [each.to_dict() for each in self.findings]
        return {"schema_version": values.pop("schema_version"), **values}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CaptionResult:
        """What `to_dict` gave."""
        regions = (each | {"box": tuple(each["box"])} for each in values["regions"])
        nested: dict[str, Any] = {
            "alternatives": tuple(Alternative(**each) for each in values["alternatives"]),
            "regions": tuple(Region(**each) for each in regions),
            "findings": tuple(Finding.from_dict(each) for each in values["findings"]),
            "differences": tuple(values["differences"]),
            "warnings": tuple(values["warnings"]),
        }
        return cls(**values | nested)

    def __repr__(self) -> str:
        verdict = "changed" if self.changed else "unchanged"
        more = f", {self.change_type}" if self.changed and self.change_type else ""
        where = f", {len(self.regions)} region{'s' * (len(self.regions) != 1)}" if self.regions else ""
        warned = f", {len(self.warnings)} warning{'s' * (len(self.warnings) != 1)}" if self.warnings else ""
        return f"<{verdict} ({self.change_score:.2f}{more}{where}{warned}): {self.caption!r}, by {self.model}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the images with boxes, where they are still to be had, and the sentence."""
        show = self.__dict__.get("_show")
        verdict = f"changed, {self.change_type}" if self.changed and self.change_type else "changed"
        verdict = verdict if self.changed else "unchanged"
        notes = "".join(f"<br><small>{escape(warning)}</small>" for warning in self.warnings)
        return (
            f"<div>{show() if show is not None else ''}<p><b>{escape(self.caption)}</b><br>"
            f"<small>{escape(verdict)}, score {self.change_score:.2f}, by {escape(self.model)}</small>{notes}</p></div>"
        )

    def show_images_with(self, show: Callable[[], str]) -> None:
        """Let `_repr_html_` begin with what `show` writes; no part of the result: not compared, copied or saved."""
        object.__setattr__(self, "_show", show)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_show"}
