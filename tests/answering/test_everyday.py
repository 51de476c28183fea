import numpy as np
import pytest
import torch
from PIL import Image

from spotchange.answering.calibration import Calibration
from spotchange.answering.everyday import EverydayAnswerer, cut_window
from spotchange.answering.gate import EVERYDAY, PIXELS, GatedAnswerer, route
from spotchange.answering.interface import CaptionOptions
from spotchange.answering.missed import MISSED
from spotchange.answering.pair import ImagePair
from spotchange.answering.runtimes.torch import TorchRuntime
from spotchange.config.model import ModelSettings
from spotchange.everyday.language.naming import hot_window
from spotchange.everyday.language.wording import build_tokenizer
from spotchange.models.build import build_model, preprocessor_for
from spotchange.models.weights.folder import LoadedModel


@pytest.fixture(scope="module")
def answerer(tmp_path_factory):
    torch.manual_seed(0)
    settings = ModelSettings.model_validate({"preset": "spotchange-everyday", "vision": {"image_size": [64, 64]}})
    loaded = LoadedModel(
        model=build_model(settings).eval(),
        settings=settings,
        tokenizer=build_tokenizer(),
        preprocessor=preprocessor_for(settings),
        folder=tmp_path_factory.mktemp("toy-everyday"),
    )
    return EverydayAnswerer(TorchRuntime(loaded), calibration=Calibration(noun_level=0.9))


def photo(seed: int) -> Image.Image:
    chance = np.random.default_rng(seed)
    pixels = chance.integers(0, 255, (6, 8, 3), dtype=np.uint8)
    large = np.asarray(Image.fromarray(pixels).resize((80, 60)), np.int16) + chance.integers(-9, 9, (60, 80, 3))
    return Image.fromarray(large.clip(0, 255).astype(np.uint8))


def test_answers_have_a_sentence_without_slots(answerer):
    pairs = [ImagePair.of(photo(1), photo(2)), ImagePair.of(photo(3), photo(3))]
    changed, same = answerer.answer(pairs, CaptionOptions(threshold=0.01))
    assert changed.result.changed
    assert "slot" not in changed.result.caption
    assert changed.heat.shape == (2, 4, 4)
    assert not same.result.changed
    assert same.result.identical


def test_nothing_is_said_of_things_below_the_threshold(answerer):
    (answer,) = answerer.answer([ImagePair.of(photo(1), photo(2))], CaptionOptions(threshold=0.9999))
    assert not answer.result.changed
    assert answer.result.change_type == "none"
    assert answer.result.regions == ()


def test_the_window_lies_round_the_hottest_cells():
    heat = np.zeros((18, 18), np.float32)
    heat[4:6, 12:15] = 0.9
    heat[15, 2] = 0.8  # another warm place, apart
    x, y, width, height = hot_window(heat)
    assert (round(x * 18, 1), round(y * 18, 1)) == (13.5, 5.0)
    assert 3 / 18 < width == height < 4.5 / 18


def test_a_window_beyond_the_edge_is_filled():
    window = cut_window(photo(1), (0.0, 0.0, 0.4, 0.4))
    assert window.size == (128, 128)
    assert np.asarray(window).std() > 1


def test_gate_sends_drawings_to_the_pixels_and_photos_to_the_everyday_model(answerer):
    drawing = Image.new("RGB", (80, 60), "white")
    other = drawing.copy()
    other.paste("black", (10, 10, 30, 30))
    assert route(ImagePair.of(drawing, other)) == PIXELS
    assert route(ImagePair.of(photo(1), photo(2))) == EVERYDAY
    loaded = []

    def scenes():
        raise AssertionError("no table-top scene is here")

    gate = GatedAnswerer(scenes, lambda: loaded.append(1) or answerer, name="bundled")
    first, second = gate.answer(
        [ImagePair.of(drawing, other), ImagePair.of(photo(1), photo(2))], CaptionOptions(threshold=0.01)
    )
    assert first.result.source == "pixels"
    assert second.result.model == answerer.card.name
    assert loaded == [1]


def test_a_change_that_the_model_misses_is_told_from_the_pixels(answerer):
    before = photo(1)
    after = before.copy()
    after.paste("black", (5, 5, 35, 35))

    class Blind(EverydayAnswerer):
        def answer(self, pairs, options):
            return super().answer(pairs, CaptionOptions(threshold=0.9999))

    blind = Blind(answerer.runtime, calibration=answerer.calibration)
    gate = GatedAnswerer(lambda: blind, lambda: blind, name="bundled")
    told, same = gate.answer([ImagePair.of(before, after), ImagePair.of(photo(2), photo(2))], CaptionOptions())
    assert told.result.changed
    assert "top left" in told.result.caption
    assert told.result.warnings == (MISSED,)
    assert not same.result.changed
