"""A tiny library made of drawn shapes: no file of the project, no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from spotchange.everyday.collecting import add_backgrounds, add_objects
from spotchange.everyday.library import Library, read_library

NOUNS = {"mug": "red", "apple": "green", "chair": "blue", "laptop": "gray", "dog": "brown", "sneaker": "white"}


def draw_thing(colour: str) -> Image.Image:
    image = Image.new("RGBA", (64, 48))
    ImageDraw.Draw(image).ellipse((4, 4, 59, 43), fill=colour)
    return image


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("everyday")
    for split in ("train", "held-out"):
        things, photos = root / split / "things", root / split / "photos"
        things.mkdir(parents=True)
        photos.mkdir()
        for noun, colour in NOUNS.items():
            draw_thing(colour).save(things / f"{noun}_01.png")
        chance = np.random.default_rng(len(split))
        for number in range(3):
            pixels = chance.integers(60, 200, (4, 4, 3), dtype=np.uint8)
            Image.fromarray(pixels).resize((128, 96)).save(photos / f"{number}.png")
        add_objects(things, root / "library", split=split)
        add_backgrounds(photos, root / "library", split=split)
    return root / "library"


@pytest.fixture(scope="session")
def library(library_folder: Path) -> Library:
    return read_library(library_folder)
