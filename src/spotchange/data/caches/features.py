"""Grid features of a frozen network on disk, with the rows that use them: images are seen once, not every epoch.

A feature folder holds `features.bin` (float16, images x cells x channels), `rows.jsonl` (a row: the numbers of its
images, captions, change type, scene, and what its task needs) and `features.json`, written last, which says what
made them. A folder without it is unfinished; one made by another network is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from spotchange.errors import DataError
from spotchange.files import load_json

FORMAT = 1
FACTS, FEATURES, ROWS = "features.json", "features.bin", "rows.jsonl"

Task = Literal["pairs", "single", "classes"]
"""Pairs with captions of what changed; single images with captions; single images with classes."""


@dataclass(frozen=True, kw_only=True)
class FeatureRow:
    """One pair, or one image (then `after` is `before`)."""

    before: int
    after: int
    captions: tuple[str, ...]
    change_type: int = -1
    scene: int = -1
    class_id: int = -1
    things: tuple[dict[str, str], ...] = ()
    """For a generated image: the attributes of its objects, by which false sentences are told from true ones."""
    changed: tuple[tuple[int, ...], ...] | None = None
    """Cells of the image before, and of the one after, that the change touches; None: not known."""


@dataclass(frozen=True, kw_only=True)
class FeatureFacts:
    """What a feature folder holds and what made it."""

    task: Task
    backbone: str
    """Fingerprint of the network's weights."""
    image_size: tuple[int, int]
    grid: tuple[int, int]
    channels: int
    pictures: int = 0  # a word of the file format
    rows: int = 0
    paired: bool = False
    """Rows 2k and 2k + 1 are the change and the distractor of one scene."""
    format: int = field(default=FORMAT)

    @property
    def image_shape(self) -> tuple[int, int]:
        """Cells and channels of one image."""
        return self.grid[0] * self.grid[1], self.channels


def read_facts(folder: str | os.PathLike[str], *, backbone: str | None = None) -> FeatureFacts:
    """What a feature folder holds; `backbone` is the fingerprint of the network that wants to read it."""
    path = Path(folder) / FACTS
    if not path.is_file():
        what = "is unfinished" if (Path(folder) / FEATURES).exists() else "holds no features"
        raise DataError(f"{folder} {what}", hint="make them with `spotchange data features`")
    try:
        values = load_json(path.read_text(encoding="utf-8"))
        values |= {name: tuple(values[name]) for name in ("image_size", "grid")}
        facts = FeatureFacts(**values)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if facts.format != FORMAT:
        raise DataError(f"{folder} was written in format {facts.format}, not {FORMAT}", hint="make the features anew")
    if backbone is not None and facts.backbone != backbone:
        raise DataError(
            f"{folder} was made by another network (its fingerprint is {facts.backbone}, the model's is {backbone})",
            hint="make the features anew with this model's network, or set model.vision.resnet to the one that did",
        )
    size = (Path(folder) / FEATURES).stat().st_size if (Path(folder) / FEATURES).is_file() else -1
    cells, channels = facts.image_shape
    if size != facts.pictures * cells * channels * 2:
        raise DataError(f"{Path(folder) / FEATURES} is not as long as {FACTS} says", hint="make the features anew")
    return facts


def read_feature_rows(folder: str | os.PathLike[str]) -> Iterator[FeatureRow]:
    """The rows, in order."""
    path = Path(folder) / ROWS
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                values = load_json(line)
                yield FeatureRow(**values | {"captions": tuple(values["captions"]), "things": tuple(values["things"])})
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
