import io
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from spotchange.answering import CaptionOptions, ImagePair, build_answerer, gate
from spotchange.answering.gate import EVERYDAY, PIXELS, SCENES, GatedAnswerer, route
from spotchange.answering.interface import Answer, AnswererCard
from spotchange.answering.photo_model import PhotoModel, PhotoView
from spotchange.answering.photos import PhotoAnswerer
from spotchange.comparison.photos.judging import judge_photos
from spotchange.everyday.kinds import KINDS
from spotchange.everyday.language.nouns import everyday_nouns
from spotchange.everyday.recognition.recognisers import Recognisers
from spotchange.models.weights.bundled import everyday_folder
from spotchange.results import CaptionResult

LIBRARY = Path(str(resources.files("spotchange"))) / "assets" / "everyday-library"


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (LIBRARY / name).read_text(encoding="utf-8").splitlines()]


def decoded(file: str, at: list[int]) -> Image.Image:
    raw = (LIBRARY / file).read_bytes()[at[0] : at[0] + at[1]]
    return Image.open(io.BytesIO(raw))


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    row = next(row for row in rows("backgrounds.jsonl") if row.get("source") == "taco")
    return decoded("backgrounds.bin", row["at"]).convert("RGB").resize((384, 288))


@pytest.fixture(scope="module")
def bottle() -> Image.Image:
    row = next(row for row in rows("objects.jsonl") if row["noun"] == "pill bottle")
    return decoded("tiles.bin", row["views"][0]["at"]).convert("RGBA")


@pytest.fixture(scope="module")
def everyday() -> PhotoAnswerer:
    model = PhotoModel(everyday_folder(), runtime="onnx", device="cpu", threads=1)
    return PhotoAnswerer(Recognisers(model.name_windows, threads=1), model)


def placed(photo: Image.Image, thing: Image.Image, at: tuple[int, int]) -> Image.Image:
    image = photo.copy()
    image.paste(thing.convert("RGB"), at, thing.getchannel("A"))
    return image


def answer(answerer, before, after, **options) -> Answer:
    (outcome,) = answerer.answer([ImagePair.of(before, after)], CaptionOptions(**options))
    assert isinstance(outcome, Answer)
    return outcome


def shot_again(image: Image.Image, chance: np.random.Generator) -> Image.Image:
    """Moved a little, brighter, compressed: the same things photographed again."""
    turned = image.rotate(0.6, Image.Resampling.BICUBIC).crop((5, 4, 379, 284)).resize(image.size)
    noisy = np.asarray(turned, np.float32) * 1.06 + chance.normal(0, 2, (*turned.size[::-1], 3))
    buffer = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=80)
    return Image.open(buffer).convert("RGB")


def test_what_came_and_went_is_told_with_its_place(everyday, photo, bottle):
    there = placed(photo, bottle, (30, 150))
    came, gone = answer(everyday, photo, there).result, answer(everyday, there, photo).result
    assert (came.change_type, gone.change_type) == ("add", "drop")
    assert came.caption.endswith("added at the bottom left")
    assert (came.source, came.model, came.preset) == ("recognition", "everyday", "photos")
    (region,) = came.regions
    assert region.image == "after"
    x, y, width, height = region.box
    assert x < 30 + bottle.width / 2 < x + width
    assert y < 150 + bottle.height / 2 < y + height


def test_the_hottest_point_lies_on_what_changed(everyday, photo, bottle):
    heat = answer(everyday, photo, placed(photo, bottle, (280, 20))).heat[1]
    row, column = np.unravel_index(int(heat.argmax()), heat.shape)
    assert 280 <= (column + 0.5) / heat.shape[1] * 384 <= 280 + bottle.width
    assert 20 <= (row + 0.5) / heat.shape[0] * 288 <= 20 + bottle.height


def test_a_move_has_a_direction(everyday, photo, bottle):
    result = answer(everyday, placed(photo, bottle, (20, 90)), placed(photo, bottle, (290, 90))).result
    assert result.change_type == "move"
    assert result.caption.endswith("moved to the right")


def test_another_shot_of_the_same_is_no_change(everyday, photo):
    result = answer(everyday, photo, shot_again(photo, np.random.default_rng(0))).result
    assert not result.changed
    assert result.change_type == "none"
    assert result.caption.startswith("nothing has changed")


def test_identical_pixels_and_ignored_places(everyday, photo, bottle):
    same = answer(everyday, photo, photo.copy()).result
    assert same.identical
    assert not same.changed
    there = placed(photo, bottle, (30, 150))
    hidden = answer(everyday, photo, there, ignore=[(20, 140, bottle.width + 20, bottle.height + 20)]).result
    assert not hidden.changed


def test_a_speck_in_an_otherwise_equal_file_is_told(everyday, photo):
    speck = photo.copy()
    speck.paste((255, 0, 0), (100, 100, 103, 103))
    result = answer(everyday, photo, speck).result
    assert result.changed
    assert result.diff_pixels == 9


def test_the_whole_image(everyday, photo):
    mirrored = answer(everyday, photo, photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)).result
    assert (mirrored.change_type, mirrored.caption) == ("mirror", "the picture was mirrored")
    gray = answer(everyday, photo.convert("RGB"), photo.convert("L").convert("RGB")).result
    assert gray.changed


def test_a_bottle_is_a_container_at_least(everyday, photo, bottle):
    evidence = everyday._recognisers.evidence
    assert 0.5 < evidence.level <= evidence.closer < 1
    caption = answer(everyday, photo, placed(photo, bottle, (30, 150))).result.caption
    assert any(f"a {noun} was added" in caption for noun in ("pill bottle", "bottle", "container"))


def test_bundled_sends_photos_to_the_recognisers_and_pages_to_the_pixels(photo, bottle):
    bundled = build_answerer("bundled")
    assert isinstance(bundled, GatedAnswerer)
    there = placed(photo, bottle, (30, 150))
    assert route(ImagePair.of(photo, there)) == EVERYDAY
    page = Image.new("RGB", (200, 150), "white")
    written = page.copy()
    written.paste((20, 20, 20), (20, 20, 60, 30))
    assert route(ImagePair.of(page, written)) == PIXELS
    assert answer(bundled, photo, there).result.model == "everyday"
    assert answer(bundled, page, written).result.model == "pixels"
    assert isinstance(build_answerer("everyday"), PhotoAnswerer)


class Unsuspecting:
    """A scene model that calls every pair unchanged, and knows it by a hair."""

    card = AnswererCard(name="scenes", architecture="test")

    def answer(self, pairs, options):
        result = CaptionResult(
            caption="there is no change", changed=False, change_score=0.1, change_type="none", familiarity=0.0006
        )
        return [Answer(result=result, heat=np.zeros((2, 18, 18), np.float32), pair=pair) for pair in pairs]


def test_a_photo_that_passes_for_a_scene_by_a_hair_is_answered_as_a_photo(everyday, photo, bottle, monkeypatch):
    monkeypatch.setattr(gate, "route", lambda pair: SCENES)
    bundled = GatedAnswerer(Unsuspecting, lambda: everyday, name="bundled")
    gone = answer(bundled, placed(photo, bottle, (30, 150)), photo).result
    assert (gone.model, gone.changed, gone.change_type) == ("everyday", True, "drop")


def test_a_scene_that_is_known_by_a_hair_stays_with_the_scene_model():
    def photos():
        raise AssertionError("the everyday model is not even loaded")

    bundled = GatedAnswerer(Unsuspecting, photos, name="bundled")
    examples = Path(str(resources.files("spotchange"))) / "assets" / "examples"
    befores = sorted(examples.glob("*_before.jpg"))
    assert befores
    for before in befores:
        told = answer(bundled, before, before.with_name(before.name.replace("before", "after")))
        assert told.result.caption == "there is no change"


def test_a_page_with_a_photo_in_it_is_compared_exactly(photo):
    page = Image.new("RGB", (600, 420), "white")
    page.paste(photo.resize((420, 380)), (0, 40))
    changed = page.copy()
    changed.paste((0, 0, 0), (500, 10, 510, 14))
    assert route(ImagePair.of(page, changed)) == PIXELS


DIAGONAL = np.eye(18, dtype=np.float32)[None].repeat(2, 0)


def viewed(score: float, kind: str, *, certainty: float = 0.9, heat: np.ndarray = DIAGONAL) -> PhotoAnswerer:
    """Photos with a model that says what a test wants."""
    kinds = dict.fromkeys(KINDS[1:], (1 - certainty) / 14) | {kind: certainty}
    view = PhotoView(score=score, changed=score >= 0.5, kinds=kinds, heat=heat)
    unnamed = Recognisers(lambda windows: np.zeros((len(windows), len(everyday_nouns().names) + 1)), threads=1)
    return PhotoAnswerer(unnamed, lambda pair, threshold=None: view)


def test_a_change_that_only_the_model_sees_is_told_where_it_points(photo):
    lighter = np.asarray(photo).copy()
    lighter[100:140, 180:220] = (lighter[100:140, 180:220].astype(int) + 14).clip(0, 255)  # too faint for the pixels
    again = shot_again(Image.fromarray(lighter), np.random.default_rng(4))
    there = np.zeros((2, 18, 18), np.float32)
    there[:, 6:9, 8:11] = 1
    assert not answer(viewed(0.02, "color", heat=there), photo, again).result.changed
    seen = answer(viewed(0.97, "color", heat=there), photo, again).result
    assert (seen.changed, seen.change_type, seen.change_score) == (True, "color", 0.97)
    assert seen.regions


@pytest.mark.parametrize(("kind", "told"), [("color", "none"), ("blur", "blur")])
def test_a_photo_that_is_softer_is_blurred_only_where_the_model_says_so(photo, kind, told):
    grain = np.random.default_rng(6).normal(0, 6, (photo.height, photo.width, 3))
    sharp = Image.fromarray((np.asarray(photo) + grain).clip(0, 255).astype(np.uint8))
    soft = sharp.filter(ImageFilter.GaussianBlur(1))
    assert answer(viewed(0.3, kind), sharp, soft).result.change_type == told


def test_a_model_that_points_where_pixels_show_nothing_is_a_warning(photo):
    again = shot_again(photo, np.random.default_rng(4))
    nothing = np.zeros((2, 18, 18), np.float32)
    nothing[:, 3:5, 3:5] = 1
    result = answer(viewed(0.97, "color", heat=nothing), photo, again).result
    assert (result.changed, result.change_type, result.regions) == (False, "none", ())
    assert result.change_score < 0.5
    assert any("no more than others" in warning for warning in result.warnings)


def test_at_night_a_few_levels_are_a_change(photo, bottle):
    chance = np.random.default_rng(2)

    def by_night(image: Image.Image) -> Image.Image:
        dark = np.asarray(image, np.float32) * 0.1 + chance.normal(0, 2, (image.height, image.width, 3))
        return Image.fromarray(dark.clip(0, 255).astype(np.uint8))

    there = np.zeros((2, 18, 18), np.float32)
    there[:, 9 : 9 + bottle.height // 16, 2 : 2 + bottle.width // 21] = 1
    pair = by_night(photo), by_night(placed(photo, bottle, (42, 144)))
    assert not judge_photos(np.asarray(pair[0]), np.asarray(pair[1]), ()).changed
    assert answer(viewed(0.97, "add", heat=there), *pair).result.change_type == "add"
    assert not answer(viewed(0.97, "add", heat=there), pair[0], by_night(photo)).result.changed


def test_the_score_of_a_change_of_the_whole_agrees_with_the_verdict(photo):
    mirrored = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    result = answer(viewed(0.15, "add"), photo, mirrored).result
    assert result.change_type == "mirror"
    assert result.change_score >= 0.5


def test_what_the_model_says_of_the_whole_is_not_believed_where_the_images_do_not_show_it(photo):
    again = shot_again(photo, np.random.default_rng(4))
    assert not answer(viewed(0.97, "mirror"), photo, again).result.changed


@pytest.mark.parametrize(("kind", "believed"), [("blur", True), ("gray", True), ("mirror", False), ("crop", False)])
def test_a_sure_model_is_believed_about_light_and_sharpness_of_the_whole(photo, kind, believed):
    again = shot_again(photo, np.random.default_rng(4))
    assert not answer(viewed(0.97, kind), photo, again).result.changed
    sure = answer(viewed(0.97, kind, certainty=0.97), photo, again).result
    assert sure.change_type == (kind if believed else "none")


def test_of_two_changed_places_the_one_that_the_model_sees_is_the_hottest(photo):
    both = photo.copy()
    both.paste((250, 20, 20), (20, 20, 110, 110))
    both.paste((250, 20, 20), (300, 200, 350, 250))
    seen = np.zeros((2, 18, 18), np.float32)
    for heat, (x, y) in ((seen.copy(), (65, 65)), (seen, (325, 225))):
        if x > 192:
            heat[1, round(y / 16 - 0.5), round(x / 384 * 18 - 0.5)] = 1  # the smaller place
        found = answer(viewed(0.97, "add", heat=heat), photo, both).heat[1]
        row, column = np.unravel_index(int(found.argmax()), found.shape)
        assert abs((column + 0.5) / found.shape[1] * 384 - x) < 45
        assert abs((row + 0.5) / found.shape[0] * 288 - y) < 45
        assert found.max() == 1


def test_the_model_may_doubt_light_but_not_an_edited_file(photo, bottle):
    edited = placed(photo, bottle, (30, 150))
    assert answer(viewed(0.01, "add"), photo, edited).result.changed


def test_pixels_that_the_model_explains_away_are_a_warning_and_no_change_in_the_sentence(photo, bottle):
    again = shot_again(placed(photo, bottle, (30, 150)), np.random.default_rng(4))
    denied = answer(viewed(0.02, "add"), photo, again).result
    assert not denied.changed
    assert "content" not in denied.caption
    assert any("pixels differ beyond noise" in warning for warning in denied.warnings)
    told = answer(viewed(0.6, "add"), photo, again).result
    assert told.changed
    assert not told.warnings
