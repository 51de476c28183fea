"""Signs of a change in pixels: where a thing went, how it was turned or scaled, what the whole image did."""

import numpy as np
import pytest

from spotchange.comparison.photos.judging import PhotoVerdict, judge_photos
from spotchange.comparison.photos.light import match_light
from spotchange.everyday.recognition.elsewhere import ALL, Elsewhere
from spotchange.everyday.recognition.outlines import outline_signs
from spotchange.everyday.recognition.signs import whole_signs
from spotchange.everyday.recognition.traces import Traces
from spotchange.everyday.recognition.whole import whole_change


def ground(seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(seed)
    return np.asarray(120 + chance.normal(0, 3, (96, 96, 3)), np.uint8)


def thing() -> np.ndarray:
    """Four colours, so that every turn of it looks different; higher than wide."""
    colours = np.array([[[220, 30, 30], [30, 200, 30]], [[30, 30, 220], [230, 230, 30]]], np.uint8)
    return np.kron(colours, np.ones((12, 8, 1), np.uint8)).astype(np.uint8)


def put(shown: np.ndarray, left: int, top: int) -> np.ndarray:
    image = ground()
    image[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
    return image


BOX = np.array([20, 20, 36, 44]) / 96


def searched(before: np.ndarray, after: np.ndarray) -> dict[str, float]:
    mask = np.abs(before.astype(int) - after).max(axis=2) > 30
    return Elsewhere([before, after], mask).search(BOX, 0, ALL)


def test_a_thing_is_found_where_it_went():
    found = searched(put(thing(), 20, 20), put(thing(), 60, 50))
    assert found["same"] > 0.95
    assert found["far"] == pytest.approx(np.hypot(40, 30) / np.sqrt(16 * 24), abs=0.1)
    assert found["here"] < 0.3


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("quarter", np.rot90(thing())),
        ("half", np.rot90(thing(), 2)),
        ("larger", np.kron(thing(), np.ones((2, 2, 1), np.uint8))[:40, :28]),
        ("smaller", thing()[::2, ::2]),
    ],
)
def test_a_turned_or_scaled_thing_is_found_as_such(name, shown):
    found = searched(put(thing(), 20, 20), put(np.ascontiguousarray(shown), 20, 20))
    # The middle of a larger one looks like the whole of a smaller one: there only turned ones must fit worse.
    others = {"quarter", "half"} if name == "larger" else {"same", "quarter", "half", "larger", "smaller"} - {name}
    assert found[name] > max(0.6, *(found[each] for each in others))


def test_what_is_flat_looks_like_nothing():
    before, after = ground(), put(thing(), 60, 50)
    assert set(searched(before, after).values()) == {0.0}


def test_two_pieces_and_a_wider_extent_after_a_split():
    before, after = put(thing(), 36, 30), ground()
    after[30:54, 28:36], after[30:54, 52:60] = thing()[:, :8], thing()[:, 8:]
    mask = np.abs(before.astype(int) - after).max(axis=2) > 30
    found = outline_signs(Traces(before, after, mask), np.array([28, 30, 60, 54]) / 96)
    assert (found["pieces before"], found["pieces after"]) == (1, 2)
    assert found["wider"] > 0.5 > abs(found["higher"])


def photo() -> np.ndarray:
    chance = np.random.default_rng(3)
    coarse = chance.uniform(0, 150, (8, 8, 3))
    return np.kron(coarse, np.ones((32, 32, 1))).clip(0, 255).astype(np.uint8)


def whole(before: np.ndarray, after: np.ndarray, **values) -> str | None:
    verdict = PhotoVerdict(np.zeros(before.shape[:2], bool), [], (), after, **values)
    return whole_change(whole_signs(before, after, verdict), verdict)


def test_changes_of_the_whole_image():
    before = photo()
    assert whole(before, before) is None
    assert whole(before, np.ascontiguousarray(before[:, ::-1])) == "mirror"
    assert whole(before, (before * 0.65 + 0.35 * np.array([200, 205, 210])).astype(np.uint8)) == "tint"
    assert whole(before, (before * 0.6).astype(np.uint8)) == "darker"
    assert whole(before, np.clip(before * 1.08, 0, 255).astype(np.uint8)) is None
    assert whole(before, before, zoom=1.04) is None
    assert whole(before, before, zoom=1.3) == "crop"


def test_pixels_cut_off_by_more_light_agree():
    chance = np.random.default_rng(1)
    before = np.kron(chance.uniform(40, 220, (16, 16, 3)), np.ones((16, 16, 1))).astype(np.uint8)
    after = np.clip(before * 1.6, 0, 255).astype(np.uint8)
    assert (after == 255).mean() > 0.2
    apart = np.abs(match_light(before, after, np.ones(before.shape[:2], bool)).after - before)
    assert np.quantile(apart, 0.99) < 16
    assert not judge_photos(before, after, ()).changed
