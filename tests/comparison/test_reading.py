"""Text in images: read where the extra is installed, named as text where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_pages import FONT, INK, page, with_box
from PIL import Image, ImageDraw

from spotchange.comparison import ComparisonOptions, compare
from spotchange.comparison.place import reading
from spotchange.errors import MissingExtraError


def priced(price: str) -> Image.Image:
    image = page()
    ImageDraw.Draw(image).text((360, 120), price, fill=INK, font=FONT)
    return image


def with_button() -> Image.Image:
    image = with_box(page(), (360, 120, 90, 32), (30, 90, 210))
    ImageDraw.Draw(image).text((374, 127), "Sign up", fill=(255, 255, 255), font=FONT)
    return image


def test_a_changed_price_is_read() -> None:
    pytest.importorskip("rapidocr")
    result = compare(priced("$19.99"), priced("$24.99"))
    assert result.summary == "the text '$19.99' changed to '$24.99'"
    assert (result.findings[0].text_before, result.findings[0].text_after) == ("$19.99", "$24.99")


def test_a_button_is_called_by_what_it_says() -> None:
    pytest.importorskip("rapidocr")
    assert compare(with_button(), page()).summary == "the button 'Sign up' on the right disappeared"


def test_a_button_whose_label_makes_it_wider_is_read() -> None:
    pytest.importorskip("rapidocr")
    images = []
    for label, width in (("Add to cart", 104), ("Add to chart", 112)):
        image = page(640, 320)
        pen = ImageDraw.Draw(image)
        pen.rounded_rectangle((420, 120, 420 + width, 160), 6, fill=(180, 130, 10))
        pen.text((432, 131), label, fill=(255, 255, 255), font=FONT)
        images.append(image)
    assert compare(*images).summary == "the text 'cart' changed to 'chart'"


def test_a_name_is_read_across_its_underscore() -> None:
    """The underscore lies below the rows in which the letters differ."""
    pytest.importorskip("rapidocr")
    images = []
    for name in ("current_app", "cubrent_app"):
        image = page(640, 320)
        ImageDraw.Draw(image).text((420, 124), name, fill=INK, font=FONT)
        images.append(image)
    finding = compare(*images).findings[0]
    assert (finding.text_before or "").replace("_", " ") == "current app"
    assert (finding.text_after or "").replace("_", " ") == "cubrent app"


def test_a_pill_is_read_whole_where_a_part_of_it_differs() -> None:
    pytest.importorskip("rapidocr")
    images = []
    for label in ("open", "opkn"):
        image = page(640, 320)
        pen = ImageDraw.Draw(image)
        pen.rounded_rectangle((420, 120, 490, 146), 12, fill=(10, 100, 220))
        pen.text((434, 124), label, fill=(255, 255, 255), font=FONT)
        images.append(image)
    assert compare(*images).summary == "the text 'open' changed to 'opkn'"


def test_without_the_extra_text_is_named_and_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "can_read", lambda: False)
    result = compare(priced("$19.99"), priced("$24.99"))
    assert result.summary == "the text on the right changed"
    assert result.findings[0].text_before is None
    with pytest.raises(MissingExtraError, match="text"):
        compare(priced("$19.99"), priced("$24.99"), ComparisonOptions(read_text=True))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("Accept - Charset", "Accepr- Charset", ("Accept- Charset", "Accepr- Charset")),
        ("Previous The", "PreviousThe", ("Previous The", "Previous The")),
        ("auto_vacuum", "auto vacuum", ("auto_vacuum", "auto_vacuum")),
        ("Add to cart", "Add torcart", ("Add to cart", "Add torcart")),
        ("Sign up", "Sign up now", ("Sign up", "Sign up now")),
    ],
)
def test_spaces_seen_on_one_side_only_are_made_alike(before: str, after: str, expected: tuple[str, str]) -> None:
    assert reading.evenly_spaced(before, after) == expected


def test_a_bullet_is_no_part_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_recognise", lambda line: "。Factory other")
    assert reading.read_box((300, 100, 150, 40), np.asarray(with_button())) == "Factory other"
    monkeypatch.setattr(reading, "_recognise", lambda line: "-5 %")
    assert reading.read_box((300, 100, 150, 40), np.asarray(with_button())) == "-5 %"
