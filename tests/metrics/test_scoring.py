from __future__ import annotations

import subprocess
import sys

import pytest
from captions import made

from spotchange.errors import InputError
from spotchange.metrics import Scorer, best_constant, score
from spotchange.metrics.rouge import longest_common_subsequence
from spotchange.metrics.sentences import SentenceTable

REFERENCES = {
    "a": ["the red cube is gone", "the red cube has disappeared"],
    "b": ["no change was made"],
    "c": ["no change was made", "the two scenes seem identical"],
    "d": ["the blue ball moved to the left"],
}


def test_values_that_can_be_worked_out_by_hand() -> None:
    result = score(
        {"a": "the red cube is gone", "b": "nothing"}, {name: REFERENCES[name] for name in "ab"}, meteor=False
    )
    # Five of six words are right; the lengths are 5 + 1 against 5 + 4.
    brevity = 2.718281828459045 ** (1 - 9 / 6)
    assert result.corpus["BLEU-1"] == pytest.approx(5 / 6 * brevity, abs=1e-6)
    assert result.items["a"]["ROUGE-L"] == 1.0
    assert result.items["b"] == {
        "BLEU-1": pytest.approx(0, abs=1e-6),
        "BLEU-2": pytest.approx(0, abs=1e-6),
        "BLEU-3": pytest.approx(0, abs=1e-6),
        "BLEU-4": pytest.approx(0, abs=1e-6),
        "ROUGE-L": 0.0,
        "CIDEr-D": 0.0,
    }


def test_a_perfect_single_reference_scores_ten() -> None:
    result = score(
        {name: REFERENCES[name][0] for name in "bd"}, {name: REFERENCES[name][:1] for name in "bd"}, meteor=False
    )
    assert result.corpus["CIDEr-D"] == pytest.approx(10)


def test_a_subset_is_an_evaluation_of_its_own() -> None:
    scorer = Scorer(REFERENCES, meteor=False)
    subset = scorer.score({"a": "the red cube is gone", "d": "the blue cube moved"})
    alone = score(
        {"a": "the red cube is gone", "d": "the blue cube moved"}, {n: REFERENCES[n] for n in "ad"}, meteor=False
    )
    assert subset.corpus == alone.corpus
    assert subset.signature == alone.signature


def test_an_empty_caption_scores_zero_with_a_warning() -> None:
    result = score(dict.fromkeys(REFERENCES, " . "), REFERENCES, meteor=False)
    assert result.corpus["CIDEr-D"] == result.corpus["ROUGE-L"] == 0
    assert result.warnings == ["4 of 4 captions hold no word and score 0 (first: id 'a')"]


def test_the_signature_names_everything_and_changes_with_the_references() -> None:
    first = score(dict.fromkeys(REFERENCES, "x"), REFERENCES, meteor=False).signature
    for part in ("refs:4x1.50@", "tok:ptb", "bleu:closest,1e-15/1e-09", "meteor:absent", "rouge-l:beta1.2", "sigma6"):
        assert part in first
    changed = score(dict.fromkeys(REFERENCES, "x"), REFERENCES | {"b": ["no change"]}, meteor=False).signature
    assert changed != first
    moved = {name: REFERENCES[name] for name in "dcba"}
    assert score(dict.fromkeys(moved, "x"), moved, meteor=False).signature == first
    assert "|split:val|" in Scorer(REFERENCES, meteor=False).score({"a": "x"}, split="val", model=None).signature


def test_the_constant_caption_is_the_best_frequent_one() -> None:
    constant = best_constant(REFERENCES, source="train captions")
    assert constant.caption == "no change was made"
    assert "train captions" in str(constant)
    scorer = Scorer(REFERENCES, meteor=False)
    floors = {
        text: scorer.score(dict.fromkeys(REFERENCES, text)).corpus["CIDEr-D"]
        for texts in REFERENCES.values()
        for text in texts
    }
    assert max(floors, key=lambda text: floors[text]) == constant.caption
    assert best_constant({"a": [""]}, source="train captions").caption == ""


def test_longest_common_subsequence_against_the_textbook() -> None:
    from random import Random

    def textbook(one: list[int], other: list[int]) -> int:
        row = [0] * (len(other) + 1)
        for word in one:
            before = row
            row = [0]
            for place, match in enumerate(other):
                row.append(before[place] + 1 if word == match else max(row[-1], before[place + 1]))
        return row[-1]

    draw = Random(0)
    for _ in range(300):
        one, other = ([draw.randrange(5) for _ in range(draw.randrange(90))] for _ in range(2))
        positions: dict[int, int] = {}
        for place, word in enumerate(one):
            positions[word] = positions.get(word, 0) | 1 << place
        assert longest_common_subsequence(positions, len(one), other) == textbook(one, other)


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(InputError, match="no items"):
        SentenceTable([], [])
    with pytest.raises(InputError, match="no reference"):
        SentenceTable(["a"], [[]])
    with pytest.raises(InputError, match="2 candidates"):
        SentenceTable(["a", "b"], [["a"]])


def test_scores_do_not_depend_on_the_hash_seed() -> None:
    candidates, references = made(30, 3)
    code = (
        "import json, sys; from spotchange.metrics import score; c, r = json.load(sys.stdin);"
        "ids = [str(i) for i in range(len(c))];"
        "print(score(dict(zip(ids, c)), dict(zip(ids, r)), meteor=False).as_dict())"
    )
    import json

    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps([candidates, references]),
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_metrics_load_no_torch() -> None:
    code = "import sys, spotchange.metrics; assert not {'torch', 'transformers', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_corpus_of_one_word_has_grams_of_one_order_only() -> None:
    result = score({"a": "cube"}, {"a": ["cube"]}, meteor=False)
    assert result.corpus["BLEU-1"] == pytest.approx(1, abs=1e-6)
    assert result.corpus["ROUGE-L"] == 1.0
