"""A contact sheet: before, after and captions of some pairs, to look at a data set at a glance."""

from __future__ import annotations

import os
import random
import textwrap
from collections.abc import Iterable

from PIL import Image, ImageDraw, ImageFont

from spotchange.data.metadata import PixelBox, Row
from spotchange.errors import DataError, ImageError
from spotchange.files import atomic_path
from spotchange.images import read_image

IMAGE_HEIGHT = 200
MAX_IMAGE_WIDTH = 360
CAPTIONS_SHOWN = 5
MARGIN = 12
LINE = 17
INK, FAINT, PAPER, EDGE, MARK = "#1a1a1a", "#6b6b6b", "#ffffff", "#d0d0d0", "#e0218a"


def pick_rows(rows: Iterable[Row], count: int, *, seed: int = 0) -> list[Row]:
    """Some rows drawn evenly from a stream of unknown length, in the stream's order."""
    chance = random.Random(seed)
    kept: list[tuple[int, Row]] = []
    for index, row in enumerate(rows):
        if len(kept) < count:
            kept.append((index, row))
        elif (place := chance.randrange(index + 1)) < count:
            kept[place] = (index, row)
    return [row for _, row in sorted(kept, key=lambda pair: pair[0])]


def write_preview(rows: list[Row], out: str | os.PathLike[str], *, columns: int = 2) -> tuple[int, int]:
    """Draw `rows` as a sheet of cards; returns the sheet's size. The suffix of `out` chooses the format."""
    if not rows:
        raise DataError("there is no pair to show")
    cards = [_card(row) for row in rows]
    columns = min(columns, len(cards))
    width = max(card.width for card in cards)
    lines = [cards[start : start + columns] for start in range(0, len(cards), columns)]
    heights = [max(card.height for card in line) for line in lines]
    size = (columns * (width + MARGIN) + MARGIN, sum(heights) + MARGIN * (len(lines) + 1))
    sheet = Image.new("RGB", size, PAPER)
    top = MARGIN
    for line, height in zip(lines, heights, strict=True):
        for column, card in enumerate(line):
            sheet.paste(card, (MARGIN + column * (width + MARGIN), top))
        top += height + MARGIN
    with atomic_path(out) as temporary:
        try:
            sheet.save(temporary)
        except (ValueError, KeyError) as error:
            raise DataError(f"cannot write {out}: unknown image format", hint="use a name like grid.png") from error
    return size


def _card(row: Row) -> Image.Image:
    images = [_side(row, "before"), _side(row, "after")]
    width = sum(image.width for image in images) + MARGIN // 2
    font = ImageFont.load_default(size=13)
    characters = max(24, int(width / 6.6))  # mean letter width of the default font at this size
    title = row.id + (f"  ({row.change_type})" if row.change_type else "")
    texts = [(line, FAINT) for line in textwrap.wrap(title, characters)]
    for caption in row.captions[:CAPTIONS_SHOWN]:
        texts += [(line, INK) for line in textwrap.wrap(f"- {caption}", characters, subsequent_indent="  ")]
    if len(row.captions) > CAPTIONS_SHOWN:
        texts.append((f"  and {len(row.captions) - CAPTIONS_SHOWN} more", FAINT))
    card = Image.new("RGB", (width, IMAGE_HEIGHT + MARGIN // 2 + LINE * len(texts) + 4), PAPER)
    card.paste(images[0], (0, 0))
    card.paste(images[1], (images[0].width + MARGIN // 2, 0))
    draw = ImageDraw.Draw(card)
    for number, (text, color) in enumerate(texts):
        draw.text((0, IMAGE_HEIGHT + MARGIN // 2 + LINE * number), text, fill=color, font=font)
    return card


def _side(row: Row, side: str) -> Image.Image:
    """One image at the sheet's height, with the boxes the row gives; a placeholder where it cannot be read."""
    path, boxes = (row.before_path, row.before_boxes) if side == "before" else (row.after_path, row.after_boxes)
    try:
        image = read_image(path)
    except ImageError as error:
        return _placeholder(side, error.message)
    scale = min(IMAGE_HEIGHT / image.height, MAX_IMAGE_WIDTH / image.width)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    framed = Image.new("RGB", (size[0], IMAGE_HEIGHT), EDGE)
    framed.paste(image.resize(size, Image.Resampling.BICUBIC), (0, (IMAGE_HEIGHT - size[1]) // 2))
    draw = ImageDraw.Draw(framed)
    for box in boxes or ():
        _draw_box(draw, box, scale, (IMAGE_HEIGHT - size[1]) // 2)
    draw.text((5, 3), side, fill=PAPER, font=ImageFont.load_default(size=12), stroke_width=2, stroke_fill=INK)
    return framed


def _draw_box(draw: ImageDraw.ImageDraw, box: PixelBox, scale: float, top: int) -> None:
    x, y, width, height = (value * scale for value in box)
    draw.rectangle((x, y + top, x + width, y + height + top), outline=MARK, width=2)


def _placeholder(side: str, reason: str) -> Image.Image:
    blank = Image.new("RGB", (IMAGE_HEIGHT * 3 // 2, IMAGE_HEIGHT), EDGE)
    text = "\n".join(textwrap.wrap(f"{side}: {reason}", 42))
    ImageDraw.Draw(blank).text((8, 8), text, fill=INK, font=ImageFont.load_default(size=12))
    return blank
