"""Diff images, as visual-regression tools show them: the page faded, what differs in red."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from spotchange.comparison import Comparison
from spotchange.files import atomic_path
from spotchange.image_sources import ImageSource
from spotchange.images import read_image

MARK = np.array((255, 0, 60), np.uint8)
FADED = 0.15  # of the contrast is left where nothing differs


def diff_image(before: ImageSource, found: Comparison) -> Image.Image:
    """Before in pale grey with every counted pixel marked; as large as the larger of both images."""
    height, width = found.mask.shape
    canvas = np.full((height, width), 255, np.float32)
    grey = np.asarray(read_image(before).convert("L"), np.float32)
    rows, columns = min(height, grey.shape[0]), min(width, grey.shape[1])
    canvas[:rows, :columns] = 255 - (255 - grey[:rows, :columns]) * FADED
    pixels = np.repeat(canvas.astype(np.uint8)[:, :, None], 3, axis=2)
    pixels[found.mask] = MARK
    return Image.fromarray(pixels)


def diff_path(path: Path) -> Path:
    """Where the diff image of a pair of that name lies."""
    return path if path.suffix.lower() == ".png" else path.with_name(path.name + ".png")


def write_diff(path: Path, before: ImageSource, found: Comparison) -> None:
    """Write the diff image as PNG under the pair's name, all or nothing."""
    with atomic_path(diff_path(path)) as temporary:
        diff_image(before, found).save(temporary, "PNG", compress_level=1)
