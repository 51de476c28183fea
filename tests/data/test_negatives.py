"""Hard negatives: near the truth, of the three kinds, and never true."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spotchange.config.scenes import scene_preset
from spotchange.data.caches.features import FeatureRow
from spotchange.data.negatives.falsehood import is_false, is_false_of_image
from spotchange.data.negatives.retrieval import NegativeWriter, SimilarCaptions, confused
from spotchange.data.negatives.table import write_negatives
from spotchange.data.negatives.word_kinds import WordKinds, words_of
from spotchange.errors import DataError
from spotchange.language.checker import check
from spotchange.language.descriptions import describe_view
from spotchange.language.writer import captions_text, write_captions
from spotchange.scenes.changes import describe_object, scene_json
from spotchange.scenes.sampler import World

BIRDS = [
    "animal1 is brown with white tuft while animal2 is orange",
    "animal1 is brown with white tuft while animal2 is dark brown with grey tuft",
    "animal1 has a red beak, while animal2 has a pale grey beak",
    "animal2 is stocky with white spotting while animal1 is greenish",
    "both animals have black wings",
    "animal1 has black legs , while animal2 has red legs .",
    "animal2 has a yellow breast and a long tail",
    "animal1 has a short tail, animal2 has a long neck",
]
STREET = [
    "the person in the blue shirt on the left is gone",
    "there is a white car in the parking lot",
    "the black truck has moved",
    "two people appeared near the red car",
    "a man in a white shirt is walking",
    "the group of people is no longer there",
    "the silver van left the street",
    "a woman stands next to the bench",
    "there are no differences",
]


@pytest.fixture(scope="module")
def scenes():
    world = World(scene_preset("clevr-change"), seed=11, device="cpu")
    return world.scenes(np.arange(60))


def test_on_scenes_no_negative_is_true(scenes) -> None:
    texts = captions_text(write_captions(scenes, seed=11, per_pair=3))
    writer = NegativeWriter(texts)
    for scene in range(len(scenes)):
        truth = scene_json(scenes, scene, "")
        for distractor in (False, True):
            start = 6 * scene + 3 * distractor
            # One sentence alone must be enough: the stream knows no others.
            negatives = writer.write(texts[start])
            assert len({" ".join(words_of(each)) for each in negatives}) == 6
            assert texts[start] not in negatives
            for sentence in negatives:
                verdict = check(sentence, truth, distractor=distractor)
                assert verdict.parsed, sentence
                assert not verdict.true, (texts[start], sentence)


def test_on_single_images_no_negative_is_true(scenes) -> None:
    """A sentence that names an object which is not there is false; the world says which are."""
    described = [describe_view(scenes, scene, 0, seed=4) for scene in range(len(scenes))]
    writer = NegativeWriter([text for texts in described for text in texts])
    for scene, texts in enumerate(described):
        objects = scenes.attributes[scene, 0]
        things = [describe_object(one) for one in objects if one[1] >= 0]
        assert not any(is_false_of_image(text, things) for text in texts)  # what is true is not called false
        negatives = writer.write(texts[0], truths=texts[1:], false=lambda text, t=things: is_false_of_image(text, t))
        assert len(negatives) == 6
        assert not set(negatives) & set(texts)


@pytest.mark.parametrize(
    ("truth", "candidate", "false"),
    [
        ("the red cube moved", "the blue cube moved", True),
        ("the red cube moved", "the red cube disappeared", True),
        ("the red cube turned blue", "the red cube turned green", True),
        ("the red cube moved", "the small block moved", False),  # may well be the same object
        ("the red cube left of the ball moved", "the red cube behind the ball moved", False),
        ("the big thing moved", "the tiny thing moved", True),
        ("nothing has changed", "the scene is the same as before", False),
        ("nothing has changed", "the red cube moved", True),
        ("the red cube moved", "there is no change", True),
        ("the red cube moved", "the red cube purple moved the", False),  # no sentence at all
    ],
)
def test_falsehood_by_what_is_claimed(truth: str, candidate: str, false: bool) -> None:
    assert is_false(candidate, [truth]) is false


def test_confused_sentences() -> None:
    assert "animal2 is brown with white tuft while animal1 is orange" in list(confused(BIRDS[0]))
    assert list(confused("both animal1 and animal2 are brown")) == []
    assert "the ball left of the red cube moved" in list(confused("the red cube left of the ball moved"))
    assert "the blue cube turned red" in list(confused("the red cube turned blue"))
    assert "the red cube has disappeared" in list(confused("the red cube has appeared"))
    assert "the man on the right is gone" in list(confused("the man on the left is gone"))


def test_replaced_words_are_of_the_same_kind() -> None:
    writer = NegativeWriter(BIRDS)
    kinds = WordKinds(BIRDS)
    assert kinds.kind("brown") == "color"
    assert kinds.kind("tuft") == "noun"
    assert kinds.kind("is") is None
    assert kinds.kind("animal1") is None
    for sentence in writer.replaced(BIRDS[0], random.Random(1)):
        before, after = BIRDS[0].split(), sentence.split()
        assert len(before) == len(after)
        changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        assert 1 <= len(changed) <= 3
        assert all(kinds.kind(old) == kinds.kind(new) for old, new in changed)


@pytest.mark.parametrize("captions", [BIRDS, STREET])
def test_any_caption_set_gives_six(captions: list[str]) -> None:
    writer = NegativeWriter(captions)
    for caption in captions:
        negatives = writer.write(caption)
        assert len(set(negatives)) == 6
        assert caption not in negatives
        assert negatives == writer.write(caption)  # the same seed, the same sentences


def test_one_negative_of_a_change_denies_it() -> None:
    """Or a sentence that denies every change would be true wherever it stands, and known without the images."""
    writer = NegativeWriter([*STREET, "nothing changed"], denials=True)
    denials = {"there are no differences", "nothing changed"}
    chosen = [denials & set(writer.write(caption)) for caption in STREET if caption not in denials]
    assert all(len(found) >= 1 for found in chosen)
    assert set.union(*chosen) == denials  # any of them
    assert not denials & set(writer.write("nothing changed"))
    # As published, without the option: the nearest, whatever they say, and always the same for one sentence.
    plain = NegativeWriter([*STREET, "nothing changed"])
    assert sum(len(denials & set(plain.write(caption))) for caption in STREET if caption not in denials) < len(chosen)
    assert plain.write("nothing changed") == plain.write("nothing changed", seed=5)


def test_pairs_without_a_change_do_not_share_their_negatives() -> None:
    """The same few for all of them would be known to be false without the images."""
    texts = [*BIRDS, *STREET[:-1]]
    rows = [FeatureRow(before=n, after=n + 1, captions=(text,)) for n, text in enumerate(texts)]
    rows += [FeatureRow(before=n, after=n + 1, captions=("nothing changed",)) for n in range(100, 110)]
    of_denials = write_negatives(rows, (2, 2, 2), denials=True, workers=1)[len(texts) :]
    assert {len(set(found)) for found in of_denials} == {6}
    assert len({tuple(sorted(found)) for found in of_denials}) > 5
    assert set().union(*of_denials) == set(texts)


def test_no_sentence_of_the_same_pair_is_a_negative() -> None:
    own = BIRDS[:3]
    negatives = NegativeWriter(BIRDS).write(own[0], truths=own[1:])
    assert not set(negatives) & set(own)


def test_retrieval_by_hand() -> None:
    found = SimilarCaptions(["red cube", "red ball", "green cone"])
    similarity = found.similarities("red cube")
    # red stands in two of three captions, cube in one: idf = ln(4/3) + 1 and ln(4/2) + 1
    common, rare = np.log(4 / 3) + 1, np.log(4 / 2) + 1
    assert similarity[0] == pytest.approx(1.0, abs=1e-6)
    assert similarity[1] == pytest.approx(common**2 / (common**2 + rare**2), abs=1e-6)
    assert similarity[2] == 0.0
    assert list(found.ranked("red cube")) == ["red ball", "green cone"]


def test_too_few_captions_are_refused() -> None:
    with pytest.raises(DataError, match="only 0 of 6 false sentences can be made for 'it is so'"):
        NegativeWriter(["it is so"]).write("it is so")


def test_several_processes_write_the_same_table() -> None:
    rows = [FeatureRow(before=i, after=i, captions=(caption,)) for i, caption in enumerate(STREET * 40)]
    assert write_negatives(rows, (2, 2, 2), workers=2) == write_negatives(rows, (2, 2, 2), workers=1)
