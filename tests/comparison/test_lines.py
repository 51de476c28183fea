"""Lines of text: which words of a line a change concerns, and which only moved on with it."""

from __future__ import annotations

import pytest
from drawn_pages import FONT, INK, LINES, PAPER, page
from PIL import Image, ImageDraw

from spotchange.comparison import ComparisonOptions, Finding, compare

UNREAD = ComparisonOptions(read_text=False)
LABEL = "Guides prices and answers"
RUNNING = (
    "Every order is packed by hand on the day it comes in and leaves the house on the next morning by rail or road"
)


def line(
    *pieces: str | tuple[str, tuple[int, int, int]], bold: int | None = None, offset: float = 0.0, width: int = 900
) -> Image.Image:
    """One line drawn piece by piece, a piece with its colour; the one numbered `bold` has a heavier stroke."""
    image = Image.new("RGB", (width, 80), PAPER)
    pen = ImageDraw.Draw(image)
    x = 30 + offset
    for number, piece in enumerate(pieces):
        text, colour = piece if isinstance(piece, tuple) else (piece, INK)
        for heavier in range(1 + (number == bold)):
            pen.text((x + heavier, 30), text, fill=colour, font=FONT)
        x += FONT.getlength(text)
    return image


def finding(before: Image.Image, after: Image.Image) -> Finding:
    result = compare(before, after, UNREAD)
    assert len(result.findings) == 1, result.findings
    return result.findings[0]


def test_a_word_of_running_text_is_boxed_alone() -> None:
    found = finding(line(RUNNING), line(RUNNING.replace("packed", "wrapped")))
    assert found.kind == "text"
    start, end = 30 + FONT.getlength("Every order is "), 30 + FONT.getlength("Every order is wrapped")
    x, _, width, _ = found.boxes_after[0]
    assert abs(x - start) <= 6
    assert abs(x + width - end) <= 6


def test_a_word_of_a_label_changes_the_label_to_its_end() -> None:
    found = finding(line(LABEL), line(LABEL.replace("Guides", "Manuals")))
    assert found.kind == "text"
    x, _, width, _ = found.boxes_after[0]
    assert abs(x + width - 30 - FONT.getlength(LABEL.replace("Guides", "Manuals"))) <= 4


def test_a_label_ends_where_another_colour_begins() -> None:
    rest = (" and what follows it here", (170, 170, 170))
    found = finding(line("First name", rest), line("Family name", rest))
    assert found.kind == "text"
    x, _, width, _ = found.boxes_after[0]
    assert abs(x + width - 30 - FONT.getlength("Family name")) <= 8


@pytest.mark.parametrize("offset", [0.0, 0.4])
def test_a_bold_word_is_told_from_those_it_pushes_on(offset: float) -> None:
    pieces = ("previous", " next modules index")
    found = finding(line(*pieces), line(*pieces, bold=0, offset=offset))
    assert found.kind == "restyled"
    x, _, width, _ = found.boxes_before[0]
    assert x + width <= 30 + FONT.getlength("previous ") + 3


def test_one_other_letter_is_no_other_weight() -> None:
    assert finding(line("warehouse/HEAD"), line("warehouse/HrAD")).kind == "text"


def test_a_part_put_in_beside_others_is_boxed_alone() -> None:
    before, after = (page(900, 400, lines=("", "", *LINES)) for _ in range(2))
    items = ("Home", "Products", "Docs", "Blog")
    for image, start in ((before, 30), (after, 270)):
        pen = ImageDraw.Draw(image)
        x = start
        for item in items:
            pen.text((x, 30), item, fill=INK, font=FONT)
            x += int(FONT.getlength(item)) + 18
    pen = ImageDraw.Draw(after)
    pen.rectangle((30, 20, 249, 59), fill=(255, 243, 191))
    pen.text((44, 30), "New: what changed", fill=INK, font=FONT)
    found = finding(before, after)
    assert found.kind == "appeared"
    assert found.boxes_after == ((30, 20, 220, 40),)
