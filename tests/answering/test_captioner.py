"""From a model's outputs to a verdict: score, sentence, regions, warnings."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scripted_model import ScriptedModel, scripted
from torch import Tensor

from spotchange.answering import CaptionOptions
from spotchange.drawing import GAP, MARK
from spotchange.errors import ImageError, ModelError
from spotchange.models.interface import VisualState

Images = tuple[Image.Image, Image.Image]


def test_a_change_is_told_with_its_score_type_and_place(images: Images) -> None:
    result = scripted(ScriptedModel()).caption(*images)
    assert (result.caption, result.changed, result.change_type, result.source) == (
        "the cube moved",
        True,
        "move",
        "model",
    )
    assert result.change_score == pytest.approx(1 - 1 / (5 + np.exp(4.0)), abs=1e-4)
    (region,) = result.regions
    assert (region.image, region.box, region.score) == ("after", (60, 40, 20, 20), 0.9)
    assert result.model == "scripted"
    assert [each.text for each in result.alternatives] == ["nothing has changed"]


@pytest.mark.parametrize("damage", [{"logits": (float("nan"),) * 6}, {"features": float("inf")}], ids=str)
def test_no_number_is_no_verdict(images: Images, damage: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="no finite numbers"):
        scripted(ScriptedModel(**damage)).caption(*images)


def test_the_sentence_follows_the_verdict(images: Images) -> None:
    unchanged = scripted(ScriptedModel(logits=(9.0, 0, 0, 0, 0, 0))).caption(*images)
    assert (unchanged.caption, unchanged.changed, unchanged.change_type) == ("nothing has changed", False, "none")
    assert unchanged.regions == ()
    assert unchanged.warnings == ()


def test_a_change_the_head_does_not_see_is_not_told(images: Images) -> None:
    result = scripted(ScriptedModel(sentences=("the cube moved",), logits=(9.0, 0, 0, 0, 0, 0))).caption(*images)
    assert (result.caption, result.changed, result.change_type) == ("there is no change", False, "none")
    assert "disagreed" in result.warnings[0]
    assert [each.text for each in result.alternatives] == ["the cube moved"]


def test_a_change_every_candidate_denies_is_told_without_the_words_of_denial(images: Images) -> None:
    model = ScriptedModel(sentences=("nothing has changed", "there is no change"), without_denial="the cube moved")
    result = scripted(model).caption(*images)
    assert (result.caption, result.changed, result.change_type) == ("the cube moved", True, "move")
    assert "disagreed" in result.warnings[0]
    assert (9, 1e4) in model.seen[1].word_penalties  # "nothing"


def test_even_a_model_that_can_only_deny_does_not_contradict_its_verdict(images: Images) -> None:
    result = scripted(ScriptedModel(sentences=("nothing has changed",))).caption(*images)
    assert (result.caption, result.changed) == ("something has changed", True)


def test_a_model_without_a_head_says_it_in_words(images: Images) -> None:
    changed = scripted(ScriptedModel(logits=None)).caption(*images)
    assert (changed.changed, changed.change_score, changed.change_type) == (True, 1.0, "move")
    same = scripted(ScriptedModel(logits=None, sentences=("nothing has changed",))).caption(*images)
    assert (same.changed, same.change_score) == (False, 0.0)


@pytest.mark.parametrize(("threshold", "changed"), [(0.5, True), (0.999, False)])
def test_the_threshold_is_the_callers(images: Images, threshold: float, changed: bool) -> None:
    options = CaptionOptions(threshold=threshold)
    assert scripted(ScriptedModel()).caption(*images, options=options).changed is changed


def test_temperature_and_penalties_come_from_calibration(images: Images) -> None:
    model = ScriptedModel()
    captioner = scripted(model, temperature=4.0, word_penalties={"left": 1.5, "unknown": 2.0})
    assert captioner.caption(*images).change_score < scripted(ScriptedModel()).caption(*images).change_score
    assert model.seen[0].word_penalties == ((7, 1.5),)


def test_identical_images_are_never_changed(images: Images) -> None:
    model = ScriptedModel()
    result = scripted(model).caption(images[0], images[0].copy())
    assert (result.changed, result.change_score, result.caption) == (False, 0.0, "the two pictures are identical")
    assert model.seen == []  # the model is not even asked


def test_unfamiliar_images_are_answered_from_their_pixels(images: Images) -> None:
    captioner = scripted(ScriptedModel(features=40.0), least_familiarity=0.0009)
    result = captioner.caption(*images)
    assert result.source == "pixels"
    assert "cube" not in result.caption
    assert "far from" in result.warnings[0]
    assert result.familiarity is not None
    assert result.familiarity < 0.0009
    at_home = scripted(ScriptedModel(), least_familiarity=0.0009).caption(*images)
    assert at_home.source == "model"


def test_ignored_places_are_shown_alike_and_not_marked(images: Images) -> None:
    before, _ = images
    after = before.copy()
    after.paste((255, 0, 0), (60, 40, 80, 60))
    ignored = CaptionOptions(ignore=((60, 40, 20, 20),))
    assert scripted(ScriptedModel()).caption(before, after, options=ignored).caption == "the two pictures are identical"
    elsewhere = CaptionOptions(ignore=((0, 0, 10, 10), (60, 40, 10, 20)))
    assert scripted(ScriptedModel()).caption(before, after, options=elsewhere).changed


class TwoHotPatches(ScriptedModel):
    """Sure of two patches of after: the first one, and x 60 to 80, y 40 to 60."""

    def heatmap(self, state: VisualState) -> Tensor:
        heat = torch.zeros(len(state), 2, 4, 6)
        heat[:, 1, 0, 0] = heat[:, 1, 2, 3] = 0.9
        return heat


def test_nothing_is_marked_where_the_caller_ignores(images: Images) -> None:
    captioner = scripted(TwoHotPatches())
    marked = captioner.answer(*images)
    assert {(region.image, region.box) for region in marked.result.regions} == {
        ("after", (0, 0, 20, 20)),
        ("after", (60, 40, 20, 20)),
    }
    spared = captioner.answer(*images, options=CaptionOptions(ignore=((60, 40, 20, 20),)))
    assert spared.result.changed  # the rest of the image is still another
    assert [(region.image, region.box) for region in spared.result.regions] == [("after", (0, 0, 20, 20))]
    assert spared.heat[:, 2, 3].tolist() == [0.0, 0.0]
    kept = np.ones(spared.heat.shape, dtype=bool)
    kept[:, 2, 3] = False
    assert np.array_equal(spared.heat[kept], marked.heat[kept])


def test_every_kind_of_source_is_read(images: Images, tmp_path: Path) -> None:
    before, after = images
    before.save(tmp_path / "before.png")
    buffer = io.BytesIO()
    after.save(buffer, "PNG")
    captioner = scripted(ScriptedModel())
    wanted = captioner.caption(before, after).caption
    assert captioner.caption(str(tmp_path / "before.png"), buffer.getvalue()).caption == wanted
    assert captioner.caption(tmp_path / "before.png", np.asarray(after)).caption == wanted


def test_many_pairs_keep_their_order_and_errors_their_place(images: Images, tmp_path: Path) -> None:
    captioner = scripted(ScriptedModel())
    pairs = [images, (tmp_path / "missing.png", images[1]), (images[0], images[0])]
    answers = list(captioner.answer_many(pairs, batch_size=2, keep_errors=True))
    assert isinstance(answers[1], ImageError)
    assert not isinstance(answers[0], ImageError)
    assert not isinstance(answers[2], ImageError)
    assert [answers[0].result.changed, answers[2].result.changed] == [True, False]
    with pytest.raises(ImageError, match=r"before: .*missing\.png does not exist"):
        list(captioner.caption_many(pairs))


def test_threads_do_not_disturb_each_other(images: Images) -> None:
    captioner = scripted(ScriptedModel())
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda turn: captioner.caption(images[turn % 2], images[1]).changed, range(32)))
    assert results == [turn % 2 == 0 for turn in range(32)]


def test_the_image_shows_both_sides(images: Images) -> None:
    sheet = scripted(TwoHotPatches()).answer(*images).figure()
    assert sheet.width == 2 * 120 + 3 * GAP
    marked = (np.asarray(sheet) == MARK).all(axis=2)
    rows, columns = np.nonzero(marked)
    assert columns.min() == 2 * GAP + 120  # both frames stand in after, the first at its corner
    assert columns.max() == 2 * GAP + 120 + 79
    assert rows.max() - rows.min() == 59
