"""What flickers: repeated captures of the same pages tell which rectangles to ignore (clocks, carets, adverts)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import yaml

from spotchange.comparison import ComparisonOptions, compare, read_raster
from spotchange.config.base import read_yaml
from spotchange.errors import InputError
from spotchange.files import write_text
from spotchange.images import images_in
from spotchange.regression.settings import CompareSettings, PixelBox

MARGIN = 4  # pixels round what was seen to flicker: the next capture may reach a little further


def learn_ignored(captures: Path) -> dict[str, list[PixelBox]]:
    """Rectangles to ignore by file name.

    Args:
        captures: either folders of captures, in which the same name is the same page, or several captures of one
            page side by side; then the name is "*".
    """
    if not captures.is_dir():
        raise InputError(f"{captures} is not a folder")
    runs = sorted(folder for folder in captures.iterdir() if folder.is_dir())
    groups: dict[str, list[Path]] = {}
    for run in runs:
        for name in sorted(images_in(run)):
            groups.setdefault(name, []).append(run / name)
    if not runs:
        groups["*"] = [captures / name for name in sorted(images_in(captures))]
    repeated = {name: paths for name, paths in groups.items() if len(paths) > 1}
    if not repeated:
        raise InputError(f"{captures} holds no page that was captured twice")
    found = {name: _flicker(paths) for name, paths in repeated.items()}
    return {name: boxes for name, boxes in found.items() if boxes}


def write_learned(path: Path, learned: dict[str, list[PixelBox]]) -> None:
    """Put the rectangles into the settings file; rules written by hand stay as they are."""
    values: dict[str, Any] = read_yaml(path) if path.is_file() else {}
    section = values.setdefault("compare", {})
    section["learned"] = [
        {"match": name.replace("[", "[[]"), "ignore": [list(box) for box in boxes]} for name, boxes in learned.items()
    ]
    CompareSettings.from_mapping(section, source=str(path))
    write_text(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None))


def _flicker(paths: list[Path]) -> list[PixelBox]:
    """Bounds of everything that differs between any two captures that follow each other."""
    images = [read_raster(path) for path in paths]
    sizes = {image.size for image in images}
    if len(sizes) > 1:
        raise InputError(f"captures of {paths[0].name} differ in size: {sorted(sizes)}")
    options = ComparisonOptions(describe=False)
    masks = [compare(first, second, options).mask for first, second in pairwise(images)]
    return boxes_round(np.logical_or.reduce(masks))


def boxes_round(mask: npt.NDArray[np.bool_]) -> list[PixelBox]:
    """Rectangles that cover a mask with a margin; those that touch are one."""
    height, width = mask.shape
    size = 2 * MARGIN + 1
    grown = cv2.dilate(mask.astype(np.uint8), np.ones((size, size), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(grown, connectivity=8)
    return [_clipped(stats[label][:4], width, height) for label in range(1, count)]


def _clipped(box: npt.NDArray[np.int32], width: int, height: int) -> PixelBox:
    x, y, w, h = (int(each) for each in box)
    return x, y, min(w, width - x), min(h, height - y)
