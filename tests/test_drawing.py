"""Figures: every image in its place, at its size, under its title, with the texts below."""

from __future__ import annotations

import numpy as np
from PIL import Image

from spotchange.drawing import GAP, PAPER, figure, label, side_by_side

SIZE = (40, 30)


def plain(colour: str) -> Image.Image:
    return Image.new("RGB", SIZE, colour)


def test_columns_stand_beside_each_other_and_wrap() -> None:
    columns = [(name, [plain(name), plain("black")]) for name in ("red", "lime", "blue")]
    sheet = figure(columns, ["one line"], across=2, band=20)
    wide, high = SIZE[0] + GAP, 20 + 2 * (SIZE[1] + GAP)
    assert sheet.size == (GAP + 2 * wide, 2 * high + 20 + GAP)
    pixels = np.asarray(sheet)
    places = {"red": (0, 0), "lime": (1, 0), "blue": (0, 1)}
    for name, (column, row) in places.items():
        left, top = GAP + column * wide, row * high + 20
        assert (pixels[top : top + SIZE[1], left : left + SIZE[0]] == np.asarray(plain(name))).all(), name
        below = top + SIZE[1] + GAP
        assert (pixels[below : below + SIZE[1], left : left + SIZE[0]] == 0).all()
    empty = pixels[high:-40, GAP + wide :]  # no fourth column
    assert (empty == PAPER).all()


def test_titles_and_texts_are_written_outside_the_images() -> None:
    bare, titled = (figure([(title, [plain("red")])], [text], band=20) for title, text in (("", ""), ("title", "text")))
    assert bare.size == titled.size
    changed = (np.asarray(bare) != np.asarray(titled)).any(axis=(1, 2))
    image = slice(20, 20 + SIZE[1])
    assert changed[:20].any()
    assert not changed[image].any()
    assert changed[20 + SIZE[1] :].any()


def test_a_label_leaves_the_image_itself_alone() -> None:
    image = plain("red")
    marked = label(image, "before")
    assert (np.asarray(image) == (255, 0, 0)).all()
    assert (np.asarray(marked) != (255, 0, 0)).any()


def test_both_sides_keep_their_order_and_heat_fades_the_rest() -> None:
    before, after = (Image.new("RGB", (120, 80), colour) for colour in ("red", "blue"))
    heat = np.zeros((2, 4, 6), dtype=np.float32)
    heat[1, :, :3] = 1.0  # the left half of after changed
    sheet = np.asarray(side_by_side(before, after, heat=heat, regions=[], caption="something"))
    middle = 34 + 40  # below the band of titles
    assert (sheet[middle, GAP + 60] == (255, 0, 0)).all()  # nothing changed before: nothing is faded there
    left = 2 * GAP + 120
    assert (sheet[middle, left + 5] == (0, 0, 255)).all()
    assert sheet[middle, left + 115].min() > 60  # grey and pale
