"""The values that travel between layers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1
Box = tuple[int, int, int, int]  # x, y, width, height in pixels of the picture given


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another sentence the model found, with its mean log-probability a word."""

    text: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Region:
    """A place in one of the pictures where something changed."""

    image: Literal["before", "after"]
    box: Box
    score: float


@dataclass(frozen=True, kw_only=True)
class CaptionResult:
    """What is said about two pictures; `to_dict` is the JSON of the command line, the batch file and the API."""

    caption: str
    changed: bool
    change_score: float
    change_type: str | None
    alternatives: tuple[Alternative, ...] = ()
    regions: tuple[Region, ...] = ()
    familiarity: float | None = None
    source: Literal["model", "pixels"] = "model"
    warnings: tuple[str, ...] = ()
    model: str = ""
    seconds: float = 0.0
    schema_version: int = field(default=SCHEMA_VERSION)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, `schema_version` first."""
        values = asdict(self)
        values["alternatives"] = [asdict(each) for each in self.alternatives]
        values["regions"] = [asdict(each) | {"box": list(each.box)} for each in self.regions]
        values["warnings"] = list(self.warnings)
        return {"schema_version": values.pop("schema_version"), **values}
