"""Sentences about one image are true of it, and object classes match their names."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spotchange.language.checker import check
from spotchange.language.descriptions import CLASS_NAMES, describe_view, object_classes
from spotchange.language.vocabulary import WORDS
from spotchange.scene import AFTER, BEFORE, SAME
from spotchange.scenes.changes import scene_json

VIEWS = {BEFORE: ("before", "before"), AFTER: ("after", "after"), SAME: ("before", "same")}
RELATION = re.compile(r" is (?=left|right|to|on|behind|in)")


@pytest.mark.parametrize("view", VIEWS)
def test_sentences_about_an_image_are_true(view, make_scenes) -> None:
    batch = make_scenes(150, seed=8, crowded=True)
    objects, camera = VIEWS[view]
    for s in range(len(batch)):
        scene = scene_json(batch, s, str(s))
        # The checker reads captions of changes: ask it whom the phrase of a change would name in this image.
        shown = {"before": scene[objects], "after": scene[objects], "cameras": {"before": scene["cameras"][camera]}}
        sentences = describe_view(batch, s, view, seed=1, sentences=4)
        assert len(set(sentences)) == 4
        for sentence in sentences:
            phrase = RELATION.sub(" ", sentence.removeprefix("there is "))
            verdict = check(f"{phrase} is gone", shown)
            assert verdict.parsed, (sentence, verdict)
            assert verdict.names, (sentence, scene)
            assert set(sentence.split()) <= set(WORDS)


def test_descriptions_depend_on_seed_scene_and_image(make_scenes) -> None:
    batch = make_scenes(2, seed=8)
    first = describe_view(batch, 1, BEFORE, seed=1)
    assert describe_view(batch[1:], 0, BEFORE, seed=1) == first
    assert describe_view(batch, 1, BEFORE, seed=2) != first
    assert describe_view(batch, 1, SAME, seed=1) != first


def test_classes_are_color_material_shape() -> None:
    attributes = np.array([[1, 0, 1, 0], [7, 2, 0, 1], [-1, -1, -1, -1]], np.int8)
    classes = object_classes(attributes)
    assert [CLASS_NAMES[index] for index in classes[:2]] == ["red metal cube", "yellow rubber cylinder"]
    assert classes[2] == -1
    assert len(set(CLASS_NAMES)) == 48
