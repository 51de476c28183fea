"""What happened, in words, from pixels alone: one drawn case for every kind."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_pages import FONT, INK, LINES, PAPER, page, photo, with_box
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from spotchange.comparison import KINDS, Comparison, ComparisonOptions, compare

UNREAD = ComparisonOptions(read_text=False)


def only(before: object, after: object) -> Comparison:
    """Compare, and expect one finding."""
    result = compare(before, after, UNREAD)
    assert len(result.findings) == 1, result.findings
    assert result.findings[0].kind in KINDS
    return result


def test_something_appears_and_disappears() -> None:
    empty, full = page(), with_box(page(), (360, 120, 60, 40), (200, 30, 30))
    came = only(empty, full)
    assert came.findings[0].kind == "appeared"
    assert came.findings[0].boxes_after == ((360, 120, 60, 40),)
    assert came.findings[0].boxes_before == ()
    assert came.summary == "a red box appeared on the right"
    assert came.change_type == "add"
    went = only(full, empty)
    assert went.findings[0].kind == "disappeared"
    assert went.findings[0].boxes_before == ((360, 120, 60, 40),)
    assert went.change_type == "drop"


def test_another_colour_has_names() -> None:
    one, other = (with_box(page(), (360, 120, 60, 40), colour) for colour in ((210, 30, 30), (30, 150, 60)))
    finding = only(one, other).findings[0]
    assert finding.kind == "recoloured"
    assert finding.colours == ("red", "green")
    assert finding.pixels == 60 * 40


def test_text_in_another_colour_is_not_other_text() -> None:
    one, other = page(), page()
    ImageDraw.Draw(one).text((300, 280), "Sign up", fill=(119, 119, 119), font=FONT)
    ImageDraw.Draw(other).text((300, 280), "Sign up", fill=(136, 136, 136), font=FONT)
    finding = only(one, other).findings[0]
    assert finding.kind == "recoloured"
    assert "#777777" in finding.sentence
    assert "#888888" in finding.sentence


@pytest.mark.parametrize(("x", "y"), [(300, 150), (352, 131), (20, 290)])
def test_a_move_is_found_by_content(x: int, y: int) -> None:
    drawing = Image.fromarray(photo(3, 50, 24))
    one, other = page(), page()
    one.paste(drawing, (350, 120))
    other.paste(drawing, (x, y))
    finding = only(one, other).findings[0]
    assert finding.kind == "moved"
    assert finding.shift == (x - 350, y - 120)
    assert finding.boxes_before == ((350, 120, 50, 24),)
    assert finding.boxes_after == ((x, y, 50, 24),)


def test_an_inserted_row_is_one_finding() -> None:
    one = page()
    other = Image.new("RGB", one.size, PAPER)
    other.paste(one.crop((0, 0, 480, 80)), (0, 0))
    other.paste((255, 240, 180), (0, 80, 480, 120))
    ImageDraw.Draw(other).text((24, 90), "We use cookies", fill=INK, font=FONT)
    other.paste(one.crop((0, 80, 480, 280)), (0, 120))
    result = only(one, other)
    assert result.findings[0].kind == "inserted"
    assert result.findings[0].shift == (0, 40)
    assert result.findings[0].boxes_after == ((0, 80, 480, 40),)
    assert "everything below moved 40 pixels down" in result.summary
    back = only(other, one)
    assert back.findings[0].kind == "removed"
    assert back.findings[0].shift == (0, -40)


def test_a_longer_page_says_its_size_and_the_row() -> None:
    one = page()
    other = Image.new("RGB", (480, 360), PAPER)
    other.paste((180, 220, 255), (0, 0, 480, 40))
    other.paste(one, (0, 40))
    result = compare(one, other, UNREAD)
    assert [finding.kind for finding in result.findings] == ["size", "inserted"]
    assert result.findings[0].sentence == "the picture is 40 pixels taller (480x320 to 480x360)"


def test_a_pushed_column_leaves_its_neighbour_alone() -> None:
    one = Image.new("RGB", (960, 320), PAPER)
    one.paste(page(), (0, 0))
    one.paste(page(lines=tuple(reversed(LINES))), (480, 0))
    other = one.copy()
    other.paste(one.crop((480, 90, 960, 290)), (480, 120))
    other.paste((200, 240, 200), (500, 90, 900, 120))
    finding = only(one, other).findings[0]
    assert finding.kind == "inserted"
    assert finding.boxes_after[0][0] >= 480


def test_other_text_is_text() -> None:
    one = page()
    other = page(lines=(LINES[0], LINES[1].replace("month", "weeks"), *LINES[2:]))
    finding = only(one, other).findings[0]
    assert finding.kind == "text"
    _, y, _, height = finding.boxes_before[0]
    assert y >= 45
    assert y + height <= 80


def test_two_lines_that_changed_places() -> None:
    one = page()
    other = page(lines=(LINES[0], LINES[2], LINES[1], *LINES[3:]))
    finding = only(one, other).findings[0]
    assert finding.kind == "swapped"


def test_larger_text_is_resized() -> None:
    one, other = page(), page()
    from PIL import ImageFont

    ImageDraw.Draw(one).text((250, 284), "Total price", fill=INK, font=FONT)
    ImageDraw.Draw(other).text((250, 284), "Total price", fill=INK, font=ImageFont.load_default(size=22))
    finding = only(one, other).findings[0]
    assert finding.kind == "resized"
    assert "larger" in finding.sentence


def test_another_image_is_replaced() -> None:
    one, other = page(), page()
    one.paste(Image.fromarray(photo(1, 90, 60)), (350, 100))
    other.paste(Image.fromarray(photo(2, 90, 60)), (350, 100))
    finding = only(one, other).findings[0]
    assert finding.kind == "replaced"
    assert finding.boxes_before == ((350, 100, 90, 60),)


SCENE = with_box(page(), (330, 100, 90, 60), (40, 90, 200))


@pytest.mark.parametrize(
    ("kind", "after", "words"),
    [
        ("mirrored", ImageOps.mirror(SCENE), "left to right"),
        ("mirrored", ImageOps.flip(SCENE), "top to bottom"),
        ("rotated", SCENE.rotate(180), "180 degrees"),
        ("blank", Image.new("RGB", SCENE.size, "white"), "all white"),
        ("grey", SCENE.convert("L").convert("RGB"), "grey"),
        ("inverted", ImageOps.invert(SCENE), "inverted"),
        ("brightness", ImageEnhance.Brightness(SCENE).enhance(0.8), "darker"),
        ("faded", Image.blend(SCENE, Image.new("RGB", SCENE.size, "white"), 0.2), "faded"),
        (
            "shifted",
            Image.fromarray(np.roll(np.asarray(SCENE), (6, -9), (0, 1))),
            "9 pixels to the left and 6 pixels down",
        ),
    ],
)
def test_changes_of_the_whole_image(kind: str, after: Image.Image, words: str) -> None:
    result = only(SCENE, after)
    assert result.findings[0].kind == kind
    assert words in result.summary
    assert result.changed


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("scaled", SCENE.resize((240, 160), Image.Resampling.LANCZOS)),
        ("cropped", SCENE.crop((40, 30, 400, 280))),
        ("rotated", SCENE.transpose(Image.Transpose.ROTATE_90)),
    ],
)
def test_changes_of_size_say_both(kind: str, after: Image.Image) -> None:
    result = compare(SCENE, after, UNREAD)
    assert [finding.kind for finding in result.findings] == ["size", kind]
    assert result.changed


def test_zoom_is_described_and_never_forgiven() -> None:
    one = Image.fromarray(photo())
    nearer = one.resize((368, 276), Image.Resampling.BICUBIC).crop((24, 18, 344, 258))
    finding = only(one, nearer).findings[0]
    assert finding.kind == "zoomed"
    assert "115 %" in finding.sentence


def test_a_darker_page_with_a_new_box_says_both() -> None:
    darker = with_box(ImageEnhance.Brightness(SCENE).enhance(0.85), (60, 286, 50, 20), (220, 20, 20))
    result = compare(SCENE, darker, UNREAD)
    assert [finding.kind for finding in result.findings] == ["brightness", "appeared"]


def test_nothing_in_common() -> None:
    result = only(Image.fromarray(photo(5)), Image.fromarray(photo(6)))
    assert result.findings[0].kind == "everything"


def test_flat_images_and_single_pixels() -> None:
    assert only(np.zeros((1, 1, 3), np.uint8), np.full((1, 1, 3), 255, np.uint8)).summary == (
        "the whole picture changed from black to white"
    )
    assert compare(np.zeros((1, 1), np.uint8), np.zeros((3, 1), np.uint8)).findings[0].kind == "size"


def test_the_summary_names_three_and_counts_the_rest() -> None:
    other = page()
    for number, colour in enumerate(((200, 0, 0), (0, 150, 0), (0, 0, 200), (200, 200, 0), (0, 0, 0))):
        other = with_box(other, (400, 20 + 60 * number, 30 - number, 20), colour)
    result = compare(page(), other, UNREAD)
    assert len(result.findings) == 5
    assert result.summary.endswith("and 2 more changes")
    assert result.summary.count("appeared") == 3


def test_same_colours_at_many_places_are_one_finding() -> None:
    one, other = page(), page()
    for top in (20, 120, 220):
        one, other = with_box(one, (400, top, 20, 20), (255, 0, 0)), with_box(other, (400, top, 20, 20), (0, 0, 255))
    finding = only(one, other).findings[0]
    assert finding.kind == "recoloured"
    assert len(finding.boxes_before) == 3


def test_ignored_places_are_not_described() -> None:
    other = with_box(with_box(page(), (400, 20, 30, 20), (200, 0, 0)), (400, 200, 30, 20), (0, 0, 200))
    result = compare(page(), other, ComparisonOptions(ignore=((390, 10, 60, 60),), read_text=False))
    assert [finding.boxes_after for finding in result.findings] == [((400, 200, 30, 20),)]


def test_tolerated_differences_are_not_described() -> None:
    other = with_box(page(), (400, 20, 3, 3), (250, 250, 250))
    result = compare(page(), other, ComparisonOptions(preset="tolerant"))
    assert not result.changed
    assert not result.identical
    assert result.findings == ()
    assert result.summary == "no pixel differs beyond the tolerance"


def grid(colours: list[int]) -> Image.Image:
    """Cards in rows of three, each with a drawing of its own."""
    image = Image.new("RGB", (480, 320), (236, 238, 240))
    for number, colour in enumerate(colours):
        x, y = 20 + 150 * (number % 3), 20 + 145 * (number // 3)
        image.paste(PAPER, (x, y, x + 140, y + 135))
        image.paste(Image.fromarray(photo(colour, 100, 60)), (x + 10, y + 10))
        ImageDraw.Draw(image).text((x + 10, y + 90), LINES[colour].split()[-1], fill=INK, font=FONT)
    return image


def test_a_card_taken_out_of_a_grid_is_one_finding() -> None:
    finding = only(grid([0, 1, 2, 3, 4]), grid([0, 2, 3, 4])).findings[0]
    assert finding.kind == "removed"
    assert "those after it moved up by one place" in finding.sentence
    ((x, y, width, height),) = finding.boxes_before
    assert x >= 165
    assert x + width <= 315
    assert y >= 20
    assert y + height <= 160


def test_cards_that_exchange_places() -> None:
    assert only(grid([0, 1, 2]), grid([1, 0, 2])).findings[0].kind in ("swapped", "moved")


def test_a_border_is_no_other_text() -> None:
    framed = page()
    ImageDraw.Draw(framed).rectangle((18, 48, 300, 78), outline=(225, 225, 225))
    finding = only(page(), framed).findings[0]
    assert finding.kind in ("recoloured", "appeared")
    assert finding.boxes_after == ((18, 48, 283, 31),)


def test_what_lay_over_other_things_disappeared() -> None:
    under = with_box(with_box(page(), (60, 100, 200, 80), (200, 30, 30)), (180, 150, 200, 90), (30, 90, 200))
    over = with_box(under, (140, 120, 160, 70), (40, 40, 44))
    went = only(over, under).findings[0]
    assert went.kind == "disappeared"
    assert went.boxes_before == ((140, 120, 160, 70),)


def test_a_line_removed_inside_a_card_pushes_what_is_below_it_there() -> None:
    one, other = page(lines=()), page(lines=())
    for image, lines in ((one, LINES[:3]), (other, (LINES[0], LINES[2]))):
        for number, line in enumerate(lines):
            ImageDraw.Draw(image).text((40, 40 + 36 * number), line, fill=INK, font=FONT)
    finding = only(one, other).findings[0]
    assert finding.kind == "removed"
    assert finding.shift == (0, -36)
