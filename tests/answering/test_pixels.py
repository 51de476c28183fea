"""What is said of any two pictures, from their pixels alone."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from spotchange.answering.coarse_pixels import compare_pixels
from spotchange.answering.pair import ImagePair
from spotchange.answering.regions import components, place_of


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    """A smooth random landscape, so that shifts can be found and compression has work to do."""
    rng = np.random.default_rng(3)
    coarse = Image.fromarray(rng.integers(0, 255, (12, 18, 3), dtype=np.uint8))
    return coarse.resize((360, 240), Image.Resampling.BICUBIC)


def with_patch(picture: Image.Image, left: int, top: int, side: int = 40) -> Image.Image:
    changed = picture.copy()
    changed.paste((255, 255, 255), (left, top, left + side, top + side))
    changed.paste((0, 0, 0), (left + side // 2, top, left + side, top + side))
    return changed


def test_same_pixels_are_identical_and_do_not_differ(picture: Image.Image) -> None:
    assert ImagePair.of(picture, picture.copy()).identical
    assert not ImagePair.of(picture, picture.resize((120, 80))).identical
    difference = compare_pixels(picture, picture)
    assert (difference.changed, difference.score, difference.sentence) == (False, 0.0, "no region differs")


@pytest.mark.parametrize(
    ("left", "top", "place"),
    [(10, 10, "top left"), (160, 100, "centre"), (310, 190, "bottom right"), (160, 10, "top"), (10, 100, "left")],
)
def test_a_patch_is_found_where_it_is(picture: Image.Image, left: int, top: int, place: str) -> None:
    difference = compare_pixels(picture, with_patch(picture, left, top))
    assert difference.sentence == f"one region differs: {place}"
    assert {region.image for region in difference.regions} == {"before", "after"}
    x, y, width, height = difference.regions[0].box
    assert x <= left + 4
    assert y <= top + 4
    assert x + width >= left + 36
    assert y + height >= top + 36


def test_two_patches_are_counted(picture: Image.Image) -> None:
    both = with_patch(with_patch(picture, 10, 10), 160, 100)
    sentence = compare_pixels(picture, both).sentence
    assert sentence.startswith("two regions differ: ")
    assert set(sentence.removeprefix("two regions differ: ").split(", ")) == {"top left", "centre"}


@pytest.mark.parametrize(("right", "down"), [(5, 3), (-7, 0), (0, 6), (-4, -9)])
def test_a_shift_is_named_and_is_no_change(picture: Image.Image, right: int, down: int) -> None:
    moved = Image.fromarray(np.roll(np.asarray(picture), (down, right), axis=(0, 1)))
    difference = compare_pixels(picture, moved)
    assert difference.shift == (right, down)
    assert not difference.changed
    assert "shifted" in difference.sentence
    assert difference.sentence.endswith("nothing else differs")


def test_a_patch_is_found_under_a_shift(picture: Image.Image) -> None:
    moved = Image.fromarray(np.roll(np.asarray(with_patch(picture, 160, 100)), (4, 6), axis=(0, 1)))
    difference = compare_pixels(picture, moved)
    assert difference.shift == (6, 4)
    assert difference.sentence.endswith("one region differs: centre")


def test_brightness_is_named_and_is_no_change(picture: Image.Image) -> None:
    dim = Image.fromarray((np.asarray(picture) * 0.8).astype(np.uint8))
    difference = compare_pixels(picture, dim)
    assert difference.sentence == "the picture is darker overall, nothing else differs"
    assert difference.brightness < -10


def test_compression_and_noise_are_no_change(picture: Image.Image) -> None:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=60)
    assert not compare_pixels(picture, Image.open(buffer).convert("RGB")).changed
    noise = np.random.default_rng(0).normal(0, 6, (240, 360, 3))
    noisy = Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
    assert not compare_pixels(picture, noisy).changed


def test_ignored_rectangles_do_not_count(picture: Image.Image) -> None:
    changed = with_patch(picture, 160, 100)
    assert not compare_pixels(picture, changed, ignore=[(150, 90, 70, 70)]).changed
    assert compare_pixels(picture, changed, ignore=[(0, 0, 50, 50)]).changed


def test_sizes_may_differ(picture: Image.Image) -> None:
    difference = compare_pixels(picture, with_patch(picture, 160, 100).resize((720, 480)))
    after = next(region for region in difference.regions if region.image == "after")
    assert 300 <= after.box[0] <= 330


def test_different_pictures_differ_almost_everywhere(picture: Image.Image) -> None:
    other = Image.fromarray(np.random.default_rng(9).integers(0, 255, (240, 360, 3), dtype=np.uint8))
    assert compare_pixels(picture, other).score > 0.5


def test_components_join_diagonals_only_when_they_touch() -> None:
    flags = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)
    assert sorted(len(group) for group in components(flags)) == [1, 2]


def test_places_cover_the_picture() -> None:
    names = {place_of((x, y, 1, 1), (90, 90)) for x in (10, 45, 80) for y in (10, 45, 80)}
    assert len(names) == 9
    assert "centre" in names
