"""Things that lie over others, stay while others move, or differ too little to be told."""

from __future__ import annotations

import numpy as np
from drawn_pages import FONT, INK, LINES, page, with_box
from PIL import Image, ImageDraw, ImageFont

from spotchange.comparison import Comparison, ComparisonOptions, compare
from spotchange.comparison.place.patches import Patch

UNREAD = ComparisonOptions(read_text=False)
PILE = {"back": (150, 60, 200, 120), "middle": (190, 90, 200, 120), "front": (230, 120, 200, 120)}
COLOURS = {"back": (184, 136, 221), "middle": (136, 207, 221), "front": (221, 150, 136)}


def told(before: object, after: object) -> Comparison:
    return compare(before, after, UNREAD)


def pile(*names: str, texts: tuple[str, ...] = ()) -> Image.Image:
    """Boxes that overlap, each with a caption of which the next box hides a part."""
    image = Image.new("RGB", (640, 320), (253, 246, 227))
    for name in names:
        image = with_box(image, PILE[name], COLOURS[name])
        if name in texts:
            x, y = PILE[name][:2]
            ImageDraw.Draw(image).text((x + 12, y + 18), "Policy of the house", fill=INK, font=FONT)
    return image


def test_a_box_under_one_and_over_another_is_gone() -> None:
    every = ("back", "middle", "front")
    result = told(pile(*every, texts=every), pile("back", "front", texts=every))
    assert [finding.kind for finding in result.findings] == ["disappeared"]
    assert result.findings[0].boxes_before == (PILE["middle"],)
    assert told(pile("back", "front", texts=every), pile(*every, texts=every)).findings[0].kind == "appeared"


def test_text_that_a_box_half_hides_is_gone() -> None:
    every = ("back", "middle", "front")
    result = told(pile(*every, texts=("middle",)), pile(*every))
    assert {finding.kind for finding in result.findings} == {"disappeared"}


def test_a_word_moved_over_other_text_has_moved() -> None:
    images = []
    for shift in ((0, 0), (-60, -36)):
        image = page()
        ImageDraw.Draw(image).text((300 + shift[0], 125 + shift[1]), "currency", fill=INK, font=FONT)
        images.append(image)
    result = told(*images)
    assert [(finding.kind, finding.shift) for finding in result.findings] == [("moved", (-60, -36))]


def test_what_was_passed_belongs_to_an_exchange() -> None:
    order = (*LINES[:2], LINES[3], LINES[4], LINES[5], LINES[2], *LINES[6:])
    before, after = page(), page(lines=order)
    finding = told(before, after).findings[0]
    assert finding.kind in ("moved", "swapped")
    differing = (np.asarray(before) != np.asarray(after)).any(axis=2)
    columns = np.flatnonzero(differing.any(axis=0))
    boxes = (*finding.boxes_before, *finding.boxes_after)
    assert min(x for x, _, _, _ in boxes) == columns[0]
    assert max(x + width for x, _, width, _ in boxes) == columns[-1] + 1


def test_what_stays_while_the_page_moves_on_is_no_finding() -> None:
    """A panel fixed to the window; the text beside it is pushed down by a banner."""
    images = []
    for push in (0, 40):
        image = Image.new("RGB", (480, 360), (255, 255, 255))
        pen = ImageDraw.Draw(image)
        if push:
            pen.rectangle((0, 0, 479, 31), fill=(255, 243, 191))
        for number, line in enumerate(LINES):
            pen.text((24, 16 + push + 36 * number), line, fill=INK, font=FONT)
        pen.rectangle((330, 90, 470, 200), fill=(235, 238, 242))
        for number, item in enumerate(("Topics", "Basics", "Notes")):
            pen.text((340, 100 + 30 * number), item, fill=INK, font=FONT)
        images.append(image)
    assert [finding.kind for finding in told(*images).findings] == ["inserted"]


def test_a_pixel_that_nobody_sees_is_not_told_beside_a_change() -> None:
    before, after = page(), with_box(page(), (360, 120, 60, 40), (200, 30, 30))
    after.putpixel((5, 5), (254, 254, 254))
    result = told(before, after)
    assert [finding.kind for finding in result.findings] == ["appeared"]
    assert result.diff_pixels == 60 * 40 + 1
    alone = page()
    alone.putpixel((5, 5), (254, 254, 254))
    assert told(before, alone).findings, "alone it is all there is to tell"


def test_a_border_inside_a_box_resizes_nothing() -> None:
    plain = with_box(page(), (320, 120, 130, 40), (30, 90, 210))
    bordered = plain.copy()
    ImageDraw.Draw(bordered).rectangle((320, 120, 449, 159), outline=(225, 225, 225))
    assert [finding.kind for finding in told(plain, bordered).findings] == ["recoloured"]


def test_shapes_at_another_fraction_of_a_pixel_are_the_same_shapes() -> None:
    def patch(one: str, other: str, down: float) -> Patch:
        """Words drawn at four times the size and brought down, the second displaced by a quarter."""
        cuts = []
        for text, offset in ((one, 0.0), (other, down)):
            large = Image.new("L", (960, 240), 255)
            ImageDraw.Draw(large).text((40, 40 + 4 * offset), text, fill=0, font=ImageFont.load_default(size=150))
            cuts.append(np.asarray(large.resize((240, 60), Image.Resampling.BOX).convert("RGB")))
        return Patch(
            box_before=(0, 0, 240, 60), box_after=(0, 0, 240, 60), before=cuts[0], after=cuts[1], rim=(0, 0, 240, 60)
        )

    assert patch("Total 1", "Total 1", 0.25).repainted
    assert not patch("Total 1", "Total 7", 0.25).repainted


def test_text_that_flows_anew_in_a_wider_box_does_not_hide_the_box() -> None:
    words = " ".join(LINES).split()
    images = []
    for width in (300, 400):
        image = Image.new("RGB", (900, 700), (255, 255, 255))
        pen = ImageDraw.Draw(image)
        pen.rectangle((40, 30, 40 + width - 1, 329), fill=(238, 238, 238))
        x, y = 56.0, 44
        for word in words:
            if x + FONT.getlength(word) > 40 + width - 16:
                x, y = 56.0, y + 26
            pen.text((x, y), word, fill=INK, font=FONT)
            x += FONT.getlength(word + " ")
        images.append(image)
    kinds = [finding.kind for finding in told(*images).findings]
    assert kinds == ["resized"]
