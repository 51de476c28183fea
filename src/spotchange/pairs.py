"""Pairs: one pair of images with what is known about it, a training batch of pairs, and the kinds of change.

Everything else stands on this module; it imports neither torch nor anything of the package but its errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spotchange.errors import DataError
from spotchange.files import load_json
from spotchange.storage import beside

if TYPE_CHECKING:
    from torch import Tensor

CHANGE_TYPES = ("none", "color", "texture", "add", "drop", "move")
NONE, RECOLOR, RETEXTURE, ADD, DROP, MOVE = range(6)

PixelBox = tuple[float, float, float, float]  # x, y, width, height


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One pair of images with what is known about it. File names are relative to `folder`."""

    id: str
    before_file_name: str
    after_file_name: str
    captions: tuple[str, ...] = ()
    differences: tuple[str, ...] | None = None
    """The single true differences, one text each; empty where nothing changed, None where nobody listed them."""
    change_type: str | None = None
    """none, color, texture, add, drop, move, or any word a data set uses."""
    facts: dict[str, Any] | None = None
    before_boxes: tuple[PixelBox, ...] | None = None
    after_boxes: tuple[PixelBox, ...] | None = None
    mask_file_name: str | None = None
    scene_id: int | str | None = None
    """Pairs of one scene share it: a change and its distractor."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Columns of the file that this project does not use, kept as they are."""
    folder: Path = Path()

    @property
    def before_path(self) -> Path:
        return beside(self.folder, self.before_file_name)

    @property
    def after_path(self) -> Path:
        return beside(self.folder, self.after_file_name)

    @property
    def mask_path(self) -> Path | None:
        return beside(self.folder, self.mask_file_name) if self.mask_file_name else None

    def to_dict(self) -> dict[str, Any]:
        """The row as it is written: columns nobody filled are left out."""
        values: dict[str, Any] = {
            "id": self.id,
            "before_file_name": self.before_file_name,
            "after_file_name": self.after_file_name,
            "captions": list(self.captions),
        }
        for name in ("change_type", "facts", "mask_file_name", "scene_id"):
            if getattr(self, name) is not None:
                values[name] = getattr(self, name)
        if self.differences is not None:
            values["differences"] = list(self.differences)
        for name in ("before_boxes", "after_boxes"):
            if getattr(self, name) is not None:
                values[name] = [list(box) for box in getattr(self, name)]
        return values | self.extra


@dataclass(frozen=True, kw_only=True)
class PairBatch:
    """N pairs on the training device.

    On data with distractors, the change row and the distractor row of a scene stand next to each
    other (rows 2k and 2k + 1). Dense truth is there for generated scenes only.
    """

    before: Tensor  # uint8 (N, 3, H, W)
    after: Tensor  # uint8 (N, 3, H, W)
    caption_ids: Tensor  # int64 (N, words), begin and end tokens included, padded
    caption_mask: Tensor  # bool (N, words), True on words
    change_type: Tensor  # int64 (N,): index into the data set's change types, 0 = none, -1 = unknown
    scene_id: Tensor  # int64 (N,): pairs of one scene share it
    patch_attributes: Tensor | None = None  # int8 (N, 2, patches, 4), -1 where no object
    change_mask: Tensor | None = None  # bool (N, 2, patches)
    answer: Tensor | None = None  # int64 (N, 6): target's color, shape, material, size, new color, new material; -1
    caption_place: Tensor | None = None  # int64 (N, 2): row of the set, which of its captions; None: the ids alone tell

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, rows: Any) -> PairBatch:
        """Select rows by slice, mask or index tensor."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: value[rows] for name, value in chosen.items() if value is not None})

    def to(self, device: Any) -> PairBatch:
        """The same batch on another device."""
        chosen = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(
            self, **{name: value.to(device, non_blocking=True) for name, value in chosen.items() if value is not None}
        )


def parse_row(line: bytes | str, folder: Path, *, captions_needed: bool = True) -> Row:
    """One line of a metadata file as a row; `DataError` says what is wrong with it."""
    try:
        values = load_json(line.decode("utf-8-sig") if isinstance(line, bytes) else line)
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error})") from error
    if not isinstance(values, dict):
        raise DataError(f"a row must be an object, not {type(values).__name__}")
    return Row(
        id=_id(values.pop("id", None)),
        before_file_name=_file_name(values, "before"),
        after_file_name=_file_name(values, "after"),
        captions=_captions(values.pop("captions", None), needed=captions_needed),
        differences=_differences(values.pop("differences", None)),
        change_type=_text(values, "change_type"),
        facts=_facts(values.pop("facts", None)),
        before_boxes=_boxes(values, "before_boxes"),
        after_boxes=_boxes(values, "after_boxes"),
        mask_file_name=_text(values, "mask_file_name"),
        scene_id=_scene_id(values.pop("scene_id", None)),
        extra=values,
        folder=folder,
    )


def _id(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise DataError("'id' is missing" if value is None else f"'id' must be text, not {value!r}")
    return value


def _file_name(values: dict[str, Any], side: str) -> str:
    """`before_file_name`, or `before` alone, as manifests written by hand have it."""
    name = f"{side}_file_name"
    value = _text(values, name if name in values else side)
    if value is None:
        raise DataError(f"'{name}' is missing")
    return value


def _text(values: dict[str, Any], name: str) -> str | None:
    value = values.pop(name, None)
    if value is not None and (not isinstance(value, str) or not value.strip() or "\0" in value):
        raise DataError(f"'{name}' must be text, not {value!r}")
    return value


def _captions(value: Any, *, needed: bool) -> tuple[str, ...]:
    if value is None and not needed:
        return ()
    if not isinstance(value, list):
        raise DataError("'captions' is missing" if value is None else "'captions' must be a list of text")
    if any(not isinstance(caption, str) or not caption.strip() for caption in value):
        raise DataError("'captions' holds an empty caption or one that is not text")
    if needed and not value:
        raise DataError("'captions' is empty")
    return tuple(value)


def _differences(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or any(not isinstance(each, str) or not each.strip() for each in value):
        raise DataError("'differences' must be a list of text")
    return tuple(value)


def _facts(value: Any) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise DataError("'facts' must be an object")
    return value


def _boxes(values: dict[str, Any], name: str) -> tuple[PixelBox, ...] | None:
    value = values.pop(name, None)
    if value is None:
        return None
    if not isinstance(value, list) or not all(_is_box(box) for box in value):
        raise DataError(f"'{name}' must be a list of [x, y, width, height]")
    return tuple((box[0], box[1], box[2], box[3]) for box in value)


def _is_box(box: Any) -> bool:
    if not isinstance(box, list) or len(box) != 4:
        return False
    if not all(isinstance(side, int | float) and not isinstance(side, bool) and math.isfinite(side) for side in box):
        return False
    return bool(box[2] >= 0 and box[3] >= 0)


def _scene_id(value: Any) -> int | str | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
        raise DataError("'scene_id' must be a number or text")
    return value
