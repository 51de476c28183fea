"""Signs of a change of the whole image, and which of them bear out what the trained model says."""

import numpy as np

from spotchange.comparison.photos.judging import PhotoVerdict, judge_photos
from spotchange.comparison.photos.light import match_light
from spotchange.everyday.recognition.signs import whole_signs
from spotchange.everyday.recognition.whole import borne_out, whole_change


def photo() -> np.ndarray:
    chance = np.random.default_rng(3)
    coarse = chance.uniform(0, 150, (8, 8, 3))
    return np.kron(coarse, np.ones((32, 32, 1))).clip(0, 255).astype(np.uint8)


def nothing_found(after: np.ndarray, **values) -> PhotoVerdict:
    shape = after.shape[:2]
    return PhotoVerdict(np.zeros(shape, bool), [], (), after, np.zeros(shape, np.float32), **values)


def whole(before: np.ndarray, after: np.ndarray, **values) -> str | None:
    verdict = nothing_found(after, **values)
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


def test_what_the_model_says_of_the_whole_must_show():
    before = photo()

    def signs(after: np.ndarray) -> dict[str, float]:
        return whole_signs(before, after, nothing_found(after))

    mirrored, darker = np.ascontiguousarray(before[:, ::-1]), (before * 0.7).astype(np.uint8)
    grey = np.repeat(before.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8)
    for kind, after in {"mirror": mirrored, "darker": darker, "gray": grey}.items():
        assert borne_out(kind, signs(after))
        assert not borne_out(kind, signs(before))
    assert not borne_out("crop", signs(darker))
    assert not borne_out("add", signs(darker))
