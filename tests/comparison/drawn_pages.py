"""Small drawn pages for the tests: text, cards and images on flat ground."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Pixels = np.ndarray

FONT = ImageFont.load_default(size=16)
INK, PAPER = (30, 34, 40), (255, 255, 255)
LINES = (
    "Plans and prices for every team",
    "Members pay by month or by year",
    "Delivery takes three working days",
    "Questions are answered on weekdays",
    "Returns are free within a month",
    "All prices include the local tax",
    "Invoices are sent on Mondays",
    "Support can be reached by phone",
)


def page(
    width: int = 480, height: int = 320, *, lines: tuple[str, ...] = LINES, ground: tuple[int, ...] = PAPER
) -> Image.Image:
    """Lines of text on flat ground."""
    image = Image.new("RGB", (width, height), ground)
    pen = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        pen.text((24, 16 + 36 * number), line, fill=INK, font=FONT)
    return image


def with_box(image: Image.Image, box: tuple[int, int, int, int], colour: tuple[int, int, int]) -> Image.Image:
    """A copy with a filled rectangle (x, y, width, height)."""
    copy = image.copy()
    x, y, width, height = box
    copy.paste(colour, (x, y, x + width, y + height))
    return copy


def photo(seed: int = 0, width: int = 320, height: int = 240) -> Pixels:
    """Something like a photo: soft shapes of all sizes, no two places alike, with a little noise."""
    generator = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3))
    for size in (4, 12, 40, 100):
        small = generator.uniform(0, 255, (size, size, 3)).astype(np.uint8)
        pixels += np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC), float) / 4
    return np.clip((pixels - 128) * 1.6 + 128 + generator.normal(0, 2, pixels.shape), 0, 255).astype(np.uint8)
