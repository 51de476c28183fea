import re

import torch

from spotchange.everyday.facts import facts_of, visible
from spotchange.everyday.imaging.compositing import compose
from spotchange.everyday.kinds import KINDS, SEVERAL, single_changes
from spotchange.everyday.language.checker import check
from spotchange.everyday.language.naming import Name, fill
from spotchange.everyday.language.sentences import difference, write
from spotchange.everyday.language.wording import FRAMES, TOKENS, build_tokenizer, frame_kind, frame_text
from spotchange.everyday.language.writing import write_frames
from spotchange.everyday.sampling import draw_scenes

SIDE = 96

THING = {"layer": 0, "nouns": ["mug", "mug"], "colours": ["red", "red"], "boxes": [[5, 40, 20, 20], None]}
NEIGHBOUR = {"layer": 1, "nouns": ["laptop", "laptop"], "colours": ["gray", "gray"], "boxes": [[30, 40, 30, 20]] * 2}
GONE = {"kind": "drop", "target": 0, "things": [THING, NEIGHBOUR]}


def test_references_are_true_and_enough(library):
    scenes = draw_scenes(library, torch.arange(48), seed=9)
    facts = [each for each in facts_of(library, scenes, compose(library, scenes, side=SIDE)) if visible(each)]
    assert len({each["kind"] for each in facts}) >= 5
    for number, each in enumerate(facts):
        texts = write(each, size=(SIDE, SIDE), seed=number)
        assert len(set(texts)) >= 5
        for text in texts:
            assert check(text, each, size=(SIDE, SIDE)).true, (text, each)


def test_checker_refuses_what_is_not_so():
    size = (100, 100)
    assert check("the red mug on the left is gone", GONE, size=size).true
    assert check("the container next to the laptop is gone", GONE, size=size).true
    for false in (
        "the red mug on the right is gone",
        "the blue mug on the left is gone",
        "the bottle on the left is gone",
        "a mug was added on the left",
        "the mug behind the laptop is gone",
        "the mug next to the dog is gone",
        "nothing has changed",
    ):
        assert not check(false, GONE, size=size).true, false


def test_references_of_several_changes_tell_each_of_them(library):
    shares = {"add": 1.0, "drop": 1.0, "move": 1.0, "resize": 1.0, "split": 1.0, "color": 1.0, "none": 0.5}
    scenes = draw_scenes(library, torch.arange(64), seed=9, shares=shares, changes=3)
    facts = [each for each in facts_of(library, scenes, compose(library, scenes, side=SIDE)) if visible(each)]
    assert {len(each.get("changes", "1")) for each in facts} == {1, 2, 3}
    size = (SIDE, SIDE)
    for number, each in enumerate(facts):
        texts, changes = write(each, size=size, seed=number), single_changes(each)
        assert (each["kind"] == SEVERAL) == (len(changes) > 1)
        assert len(set(texts)) >= 5
        for text in texts:
            assert len(re.split("; |, and ", text)) == len(changes)
            assert check(text, each, size=size).true, (text, each)
        for change in changes:
            text = difference(change, size=size)
            assert check(text, change, size=size).true, (text, change)


def test_checker_reads_each_clause_of_several_changes():
    lamp = {"layer": 2, "nouns": ["lamp", "lamp"], "colours": ["blue", "blue"], "boxes": [None, [60, 5, 20, 20]]}
    changes = [{"kind": "drop", "target": 0}, {"kind": "add", "target": 2}]
    facts = {"kind": SEVERAL, "changes": changes, "things": [THING, NEIGHBOUR, lamp]}
    for sentence, true in {
        "a lamp was added at the top right; the red mug next to the laptop is gone": True,
        "the mug on the left is gone, and there is now a blue lamp at the top right": True,
        "The mug is gone. A lamp was added.": True,
        "the mug is gone": True,  # not all, but nothing that is not so
        "the mug is gone; the lamp is gone": False,
        "a mug was added; the lamp was removed": False,
        "the mug is gone; a red lamp was added": False,
        "the mug is gone; the mug was removed": False,
        "the mug is gone; a lamp was added; a lamp was added": False,
        "the mug is gone; nothing else has changed": False,
        "nothing has changed": False,
        "": False,
    }.items():
        assert check(sentence, facts, size=(100, 100)).true == true, sentence


def test_checker_takes_orange_for_a_colour():
    thing = {**NEIGHBOUR, "colours": ["gray", "orange"]}
    facts = {"kind": "color", "target": 0, "things": [thing]}
    for verb in ("is now", "turned", "became", "has become"):
        assert check(f"the laptop {verb} orange", facts, size=(100, 100)).true, verb
    can = {**THING, "nouns": ["can", "can"], "colours": ["orange", "orange"]}
    facts = {"kind": "drop", "target": 0, "things": [can]}
    assert check("someone removed the orange can on the left", facts, size=(100, 100)).true
    assert not check("the orange can be seen no longer", facts, size=(100, 100)).true


def test_checker_knows_neighbours_that_are_plural():
    pair = {"layer": 1, "nouns": ["scissors", "scissors"], "colours": ["gray"] * 2, "boxes": [[30, 40, 30, 20]] * 2}
    facts = {"kind": "drop", "target": 0, "things": [THING, pair]}
    assert check("the mug next to the pair of scissors is gone", facts, size=(100, 100)).true
    assert not check("the mug next to the pair of trousers is gone", facts, size=(100, 100)).true


def test_frames_on_the_device_are_those_of_the_table():
    kinds = torch.arange(len(KINDS)).repeat_interleave(3)
    facts = torch.zeros(len(kinds), 5, dtype=torch.long)
    ids, mask = write_frames(kinds, facts, torch.tensor([0.0, 0.5, 0.99]).repeat(len(KINDS)))
    for kind, words, counted in zip(kinds.tolist(), ids.tolist(), mask.sum(1).tolist(), strict=True):
        text = frame_text(words)
        assert frame_kind(text) == KINDS[kind], text
        assert counted == len(text.split()) + 2
    assert frame_kind("a slot1 was seen") is None


def test_tokenizer_has_the_same_ids():
    tokenizer = build_tokenizer()
    text = FRAMES["drop"][0].format(before="on the left")
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.get_vocab_size() == len(TOKENS)


def test_slots_take_names_with_their_articles():
    frame = "a slot1 was added on the left"
    assert fill(frame, Name(noun="apple")) == "an apple was added on the left"
    assert fill(frame, Name(noun="scissors", colour="red")) == "a red pair of scissors was added on the left"
    gone = "the slot1 on the left is gone"
    assert fill(gone, Name(noun="object", colour="red")) == "something red on the left is gone"
    replaced = "the slot1 on the left was replaced by a slot2"
    assert fill(replaced, Name(noun="mug"), Name(noun="furniture")) == (
        "the mug on the left was replaced by a piece of furniture"
    )
