"""METEOR's normaliser on what the jar's was seen to give."""

from __future__ import annotations

import pytest

from spotchange.metrics.meteor.lexicon import normalize

PREFIXES = frozenset({"vs", "v", "e.g", "i.e", "Mr"})


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("it 's do n't", "it ' s do n 't"),
        ("the left-hand side-by-side a-b-c -5 5-", "the left hand side by side a b-c -5 5-"),
        ("u.s. e.g. p.m.", "us eg pm"),
        ("etc. the", "etc. the"),
        ("etc. The", "etc . the"),
        ("the end.", "the end ."),
        ("vs. The Mr. X mr. X", "vs. the mr. x mr . x"),
        ("1,000 a,b 1,a", "1,000 a , b 1 , a"),
        ("a... .. ...b", "a ... .. ... b"),
        ("what?no!yes !!", "what ? no ! yes ! !"),
        ("`a' ``a''", "' a ' \" a \""),
        ("a – b -- c", "a - b - c"),
        ("café 你好 ½", "café 你 好 ½"),
        ("1\xa01/2 #5", "1 1 / 2 # 5"),
        ("90's d’a 1'a", "90 's d 'a 1'a"),
        ("", ""),
    ],
)
def test_normalize(sentence: str, words: str) -> None:
    assert " ".join(normalize(sentence, PREFIXES)) == words
