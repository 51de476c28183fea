"""The checker accepts what is true, in many wordings, and rejects what was made false on purpose."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from spotchange.errors import DataError
from spotchange.language import (
    change_type_of,
    check,
    check_facts,
    find_change,
    has_all_attributes,
    says_no_change,
)
from spotchange.language.grammar import KNOWN_WORDS
from spotchange.language.vocabulary import WORDS
from spotchange.language.writer import captions_text, describable, write_captions
from spotchange.pairs import CHANGE_TYPES
from spotchange.scenes.changes import facts, scene_json

COLORS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
OTHER_KIND = {
    **dict.fromkeys(("large", "big"), ("small", "tiny")),
    **dict.fromkeys(("small", "tiny"), ("large", "big")),
    **dict.fromkeys(("metal", "metallic", "shiny"), ("rubber", "matte")),
    **dict.fromkeys(("rubber", "matte"), ("metal", "metallic", "shiny")),
    **dict.fromkeys(("cube", "block"), ("ball", "cylinder")),
    **dict.fromkeys(("sphere", "ball"), ("cube", "cylinder")),
    "cylinder": ("block", "sphere"),
    **{color: tuple(other for other in COLORS if other != color) for color in COLORS},
}
OPPOSITE = {"left": "right", "right": "left", "behind": "in front of", "in front of": "behind"}
VERBS = {
    "add": ("has appeared", "has been newly placed", "has been added"),
    "drop": ("has disappeared", "is missing", "is gone", "is no longer there"),
    "move": ("changed its location", "is in a different location", "was moved", "moved"),
}
VERB = re.compile(
    "|".join([r"(?:changed to|turned|became) \w+", *(verb for forms in VERBS.values() for verb in forms)])
)
RELATION = re.compile(r"\b(?:left|right|behind|in front of)\b")


def pick(random, choices):
    return choices[random.integers(len(choices))]


def wrong_attribute(caption, random):
    """Another value of an attribute of the subject: the changed object no longer fits, so this cannot be true."""
    subject = RELATION.split(VERB.split(caption)[0])[0].split()
    places = [i for i, word in enumerate(subject) if word in OTHER_KIND]
    words = caption.split()
    if not places:
        return None
    place = pick(random, places)
    words[place] = pick(random, OTHER_KIND[words[place]])
    return " ".join(words)


def wrong_relation(caption, random):
    """The opposite relation to the same object, which stands on its own: the changed object is on one side only."""
    return RELATION.sub(lambda found: OPPOSITE[found[0]], caption) if RELATION.search(caption) else None


def wrong_verb(caption, random):
    """The verb of another change."""
    found = VERB.search(caption)[0]
    others = [verb for forms in VERBS.values() if found not in forms for verb in forms]
    return VERB.sub(pick(random, others), caption)


def wrong_value(caption, random):
    """Another new colour or material."""
    words = caption.split()
    if words[-2] not in ("to", "turned", "became") or words[-1] not in OTHER_KIND:
        return None
    words[-1] = pick(random, OTHER_KIND[words[-1]])
    return " ".join(words)


MUTATIONS = (wrong_attribute, wrong_relation, wrong_verb, wrong_value)


@pytest.fixture(scope="module")
def written(make_scenes):
    """Scenes with the captions of their changes."""
    batch = make_scenes(600, seed=21)
    batch = batch[describable(batch)]
    ids = write_captions(batch, seed=9, per_pair=6)
    scenes = [scene_json(batch, s, str(s)) for s in range(len(batch))]
    return batch, scenes, [captions_text(rows) for rows in ids[:, 0]], [captions_text(rows) for rows in ids[:, 1]]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_captions_made_false_are_rejected(mutate, written) -> None:
    _, scenes, captions, _ = written
    random = np.random.default_rng(4)
    tried = 0
    for scene, sentences in zip(scenes, captions, strict=True):
        for caption in sentences:
            false = mutate(caption, random)
            if false is not None:
                assert false != caption
                tried += 1
                assert not check(false, scene).true, (caption, false)
    assert tried > 500


def test_captions_of_another_object_are_rejected(written) -> None:
    batch, scenes, _, _ = written
    moved = batch[batch.change == 5]
    other = moved[:]
    for s in range(len(other)):
        other.target[s] = (other.target[s] + 1) % moved.count[s, 0]
    truth = [scene for scene in scenes if scene["change_type"] == "move"]
    wrong = write_captions(other, seed=1, per_pair=6)[:, 0]
    clear = describable(other)
    assert clear.sum() > 50
    for s in np.flatnonzero(clear):
        assert not any(check(caption, truth[s]).true for caption in captions_text(wrong[s]))


def test_change_and_no_change_exclude_each_other(written) -> None:
    _, scenes, changes, nothings = written
    for scene, told, nothing in zip(scenes, changes, nothings, strict=True):
        assert not any(check(caption, scene, distractor=True).true for caption in told)
        assert not any(check(caption, scene).true for caption in nothing)


def test_types_and_facts_are_read_back(written) -> None:
    batch, scenes, changes, nothings = written
    for s, scene in enumerate(scenes):
        kind, truth = CHANGE_TYPES[batch.change[s]], facts(batch, s)
        assert find_change(scene).change_type == kind
        for caption in changes[s]:
            assert change_type_of(caption) == kind
            assert not says_no_change(caption)
            assert check_facts(caption, kind, truth).correct
            claimed = check(caption, scene).attributes_claimed
            complete = {**truth["target"], **({"new": truth["new"]} if "new" in truth else {})}
            assert claimed.items() <= complete.items()
            assert has_all_attributes(caption, kind, truth) == (claimed == complete)
        for caption in nothings[s]:
            assert change_type_of(caption) == "none"
            assert says_no_change(caption)
            assert check_facts(caption, "none", {}).correct
            assert not check_facts(caption, kind, truth).true


def thing(shape, size, color, material, x, y):
    return {"shape": shape, "size": size, "color": color, "material": material, "xy": [x, y]}


@pytest.fixture
def scene():
    """From the camera, which looks along +y: red cube, red cube, blue ball from left to right; one red cube moves."""
    things = [
        thing("cube", "large", "red", "metal", -2, 0.5),
        thing("cube", "large", "red", "metal", 0, -0.5),
        thing("sphere", "small", "blue", "rubber", 2, 0),
    ]
    after = [dict(things[0]), dict(things[1], xy=[1, 2]), dict(things[2])]
    cameras = {"before": [0, -8, 5], "after": [0, -8, 5], "same": [0, -8, 5]}
    return {"id": "1", "before": things, "after": after, "cameras": cameras}


@pytest.mark.parametrize(
    ("caption", "correct", "names"),
    [
        ("the red cube that is in front of the blue ball moved", True, (1,)),
        ("the cube in front of the ball was moved", True, (1,)),
        ("the metal large red block on the right side of the big thing moved", False, (1,)),
        ("the red cube behind the blue ball moved", False, (0,)),
        ("the red cube left of the blue ball moved", False, (0, 1)),
        ("the red cube moved", False, (0, 1)),
        ("the blue ball moved", False, (2,)),
        ("the green cube moved", False, ()),
        ("the cube red metallic in front of the blue ball has been moved", True, (1,)),
        ("the cube in front of the ball changed its location.", True, (1,)),
        ("the cube right of the cube left of the ball moved", False, (1,)),
        ("the cube in front of the ball turned blue", False, (1,)),
        ("The cube in front of the ball is in a different location", True, (1,)),
    ],
)
def test_whom_a_phrase_names(scene, caption, correct, names) -> None:
    verdict = check(caption, scene)
    assert verdict.parsed
    assert verdict.correct == correct
    assert verdict.names == names


@pytest.mark.parametrize(
    ("caption", "reason"),
    [
        ("", "empty"),
        ("the zebra moved", "unknown word 'zebra'"),
        ("the red cube", "no known change"),
        ("the red red cube moved", "color of an object is said twice"),
        ("the red moved", "one noun"),
        ("the cube ball moved", "shape of an object is said twice"),
        ("the thing cube moved", "one noun"),
        ("the cube left of moved", "left"),
        ("the moved", "one noun"),
        ("there is no change the red cube", "no known change"),
        ("the red cube has the ball moved", "'has'"),
    ],
)
def test_sentences_outside_the_language_are_not_parsed(scene, caption, reason) -> None:
    verdict = check(caption, scene)
    assert not verdict.parsed
    assert not verdict.true
    assert verdict.change_type is None
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("caption", "kind"),
    [
        ("there is no longer a red ball", "drop"),
        ("the ball has gone", "drop"),
        ("a blue cube was added to the scene", "add"),
        ("there is a newly placed blue cube", "add"),
        ("the the cube cube has moved", "move"),
        ("the cube was turned metallic", "texture"),
        ("the cube became cyan", "color"),
        ("a dog barks", None),
    ],
)
def test_change_type_by_the_verb(caption, kind) -> None:
    assert change_type_of(caption) == kind


@pytest.mark.parametrize(
    "caption",
    [
        "there is no difference",
        "No change.",
        "the two images are the same",
        "the two pictures appear to be identical",
        "almost nothing has changed",
        "I can't see any difference",
        "I do not see any differences between these pictures",
        "the images have not changed",
        "nothing in the second picture seems to have changed",
    ],
)
def test_no_change_in_free_words(caption) -> None:
    assert says_no_change(caption)


@pytest.mark.parametrize(
    "caption",
    [
        "the lady is no longer there",
        "there are no people in the same spot",
        "the images are the same but the black car is gone",
        "the same car is now parked in the after image",
        "the lady is in a different place",
        "a new house appears, the road remains and nothing else",
        "the mug was moved; no other change is visible",
        "the lamp is on, nothing else has changed",
    ],
)
def test_changes_in_free_words(caption) -> None:
    assert not says_no_change(caption)


def test_left_and_behind_are_what_an_image_shows() -> None:
    """A pinhole camera's own image: left has the smaller column, behind the smaller row."""
    camera = np.array([7.48, -6.51, 5.34])
    forward = -camera / np.linalg.norm(camera)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    down = -np.cross(right, forward)

    def image(place):
        ray = np.array([*place, 0.0]) - camera
        return ray @ right / (ray @ forward), ray @ down / (ray @ forward)

    ground = np.array([right[:2], forward[:2] / np.linalg.norm(forward[:2])])
    cameras = {"before": camera.tolist(), "after": camera.tolist()}
    for direction, relation, axis, sign in (
        (-ground[0], "left of", 0, -1),
        (ground[0], "right of", 0, 1),
        (ground[1], "behind", 1, -1),
        (-ground[1], "in front of", 1, 1),
    ):
        assert np.sign(image(direction)[axis] - image((0, 0))[axis]) == sign
        ball, cube = thing("sphere", "small", "red", "metal", *direction), thing("cube", "small", "red", "metal", 0, 0)
        scene = {"before": [ball, cube], "after": [cube], "cameras": cameras}
        assert check(f"the thing {relation} the cube is gone", scene).correct


def test_facts_take_relations_on_trust_but_not_attributes() -> None:
    truth = {"target": {"shape": "cube", "size": "small", "color": "red", "material": "metal"}, "new": "blue"}
    assert check_facts("the red cube left of the ball became blue", "color", truth).correct
    assert not check_facts("the red ball became blue", "color", truth).true
    assert not check_facts("the red cube became green", "color", truth).true
    assert not check_facts("the red cube moved", "color", truth).true
    assert not has_all_attributes("the red cube became blue", "color", truth)
    assert has_all_attributes("the tiny red shiny block became blue", "color", truth)
    with pytest.raises(DataError, match="facts lack"):
        check_facts("the red cube moved", "move", {})


def test_scenes_with_two_changes_are_refused(scene) -> None:
    scene["after"][0]["color"] = "green"
    with pytest.raises(DataError, match="more than one object"):
        check("the red cube moved", scene)
    scene["after"] = [dict(scene["before"][0], color="green", xy=[0, 3]), *scene["before"][1:]]
    with pytest.raises(DataError, match="more than one way"):
        check("the red cube moved", scene)


def test_both_know_the_same_words() -> None:
    assert set(WORDS) == KNOWN_WORDS


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_captions_of_blender_scenes(shared) -> None:
    folder = shared / "data" / "blender-clevr-dev"
    if not folder.is_dir():
        pytest.skip("no Blender scenes")
    scenes = {scene["id"]: scene for scene in read_lines(folder / "scenes.jsonl")}
    for row in read_lines(folder / "metadata.jsonl"):
        scene, distractor = scenes[row["id"][:-1]], row["change_type"] == "none"
        for caption in row["captions"]:
            verdict = check(caption, scene, distractor=distractor)
            assert verdict.true
            assert verdict.correct == row["facts"].get("unique", True)
            assert has_all_attributes(caption, row["change_type"], row["facts"])
