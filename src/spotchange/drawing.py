"""Images for people: both sides with what changed marked, and figures of titled columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from spotchange.images import shrunk
from spotchange.results import Box, Region

GAP = 8
BAND = 34  # pixels a line of text takes
FADE = 0.6  # of the contrast is left where nothing changed
PANEL_WIDTH, PANEL_HEIGHT = 4096, 640  # pixels, at most
INK, PAPER, MARK = (28, 28, 30), (255, 255, 255), (255, 45, 85)


def overlay(image: Image.Image, heat: npt.NDArray[np.floating]) -> Image.Image:
    """The image with what changed, heat in [0, 1], in its own colours and the rest faded.

    Nothing is painted over the change: it may be a change of colour. Without heat nothing is faded.
    """
    strength = Image.fromarray((np.clip(heat, 0, 1) * 255).astype(np.uint8)).resize(
        image.size, Image.Resampling.BICUBIC
    )
    kept = np.asarray(strength, dtype=np.float32)[..., None] / 255.0
    pixels = np.asarray(image, dtype=np.float32)
    faded = (pixels.mean(axis=2, keepdims=True) * 0.7 + pixels * 0.3) * FADE + 255 * (1 - FADE)
    fading = (1 - kept) * float(np.clip(heat, 0, 1).max())
    return Image.fromarray(np.clip(pixels * (1 - fading) + faded * fading, 0, 255).astype(np.uint8))


def draw_boxes(image: Image.Image, regions: Sequence[Region]) -> Image.Image:
    """A copy with a frame round every region."""
    marked = image.copy()
    pen = ImageDraw.Draw(marked)
    thickness = max(2, round(max(image.size) / 240))
    for region in regions:
        x, y, width, height = region.box
        pen.rectangle((x, y, x + width - 1, y + height - 1), outline=MARK, width=thickness)
    return marked


def marked_image(
    image: Image.Image, heat: npt.NDArray[np.floating], regions: Sequence[Region], *, height: int
) -> Image.Image:
    """The image at this height, with heat and boxes; work and memory follow the height, not the image."""
    size = (max(1, round(image.width * height / image.height)), height)
    across, down = size[0] / image.width, height / image.height
    scaled = shrunk(image, *size).resize(size)
    boxes = [replace(each, box=_scaled(each.box, across, down)) for each in regions]
    return draw_boxes(overlay(scaled, heat), boxes)


def _scaled(box: Box, across: float, down: float) -> Box:
    x, y, width, height = box
    return round(x * across), round(y * down), max(1, round(width * across)), max(1, round(height * down))


def side_by_side(
    before: Image.Image,
    after: Image.Image,
    *,
    heat: npt.NDArray[np.floating],
    regions: Sequence[Region],
    caption: str,
) -> Image.Image:
    """Before and after with heat (2, rows, columns) and boxes, the sentence underneath."""
    widest = max(image.width / image.height for image in (before, after))
    height = max(1, min(PANEL_HEIGHT, before.height if before.height > after.height else after.height))
    height = max(1, min(height, round(PANEL_WIDTH / widest)))
    panels = [
        marked_image(image, heat[index], [r for r in regions if r.image == name], height=height)
        for index, (name, image) in enumerate((("before", before), ("after", after)))
    ]
    return figure([("before", panels[:1]), ("after", panels[1:])], [caption], band=BAND, font_size=20)


def stacked(before: Image.Image, after: Image.Image) -> Image.Image:
    """One image with before above after, as wide as before."""
    if after.width != before.width:
        after = after.resize((before.width, max(1, round(after.height * before.width / after.width))))
    sheet = Image.new("RGB", (before.width, before.height + after.height))
    sheet.paste(before, (0, 0))
    sheet.paste(after, (0, before.height))
    return sheet


def figure(
    columns: Sequence[tuple[str, Sequence[Image.Image]]],
    texts: Sequence[str],
    *,
    across: int | None = None,
    band: int = 26,
    font_size: int = 15,
) -> Image.Image:
    """Columns of images of one size, each under its title, `across` beside each other; texts underneath."""
    font = ImageFont.load_default(size=font_size)
    across = across or len(columns)
    rows = [columns[first : first + across] for first in range(0, len(columns), across)]
    tallest = band + max(sum(image.height + GAP for image in images) for _, images in columns)
    width = GAP + max(sum(images[0].width + GAP for _, images in row) for row in rows)
    letters = max(20, round(width / (0.55 * font_size)))  # mean width of a letter of the default font
    lines = [line for text in texts for line in textwrap.wrap(text, letters)]
    sheet = Image.new("RGB", (width, len(rows) * tallest + band * max(1, len(lines)) + GAP), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, row in enumerate(rows):
        left = GAP
        for title, images in row:
            pen.text((left, number * tallest + band // 6), title, fill=INK, font=font)
            top = number * tallest + band
            for image in images:
                sheet.paste(image, (left, top))
                top += image.height + GAP
            left += images[0].width + GAP
    for number, line in enumerate(lines):
        pen.text((GAP, len(rows) * tallest + number * band), line, fill=INK, font=font)
    return sheet


def label(image: Image.Image, text: str) -> Image.Image:
    """A copy with a word in its corner that can be read on any ground."""
    marked = image.copy()
    font = ImageFont.load_default(size=15)
    ImageDraw.Draw(marked).text((6, 4), text, fill=PAPER, font=font, stroke_width=2, stroke_fill=INK)
    return marked
