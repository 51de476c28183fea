"""Whether a sentence is surely false, given true ones: what makes a hard negative a negative."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from spotchange.data.negatives.word_kinds import is_content, meaning_of, words_of
from spotchange.language import MEANING, Claim, UnreadableError, read_claim, says_no_change

NOUNS = "cube|block|sphere|ball|cylinder|object|thing"
PHRASE = re.compile(rf"\b(?:the|a) (?:\w+ )*?(?:{NOUNS})\b")


def is_false(candidate: str, truths: Sequence[str], *, rearranged: bool = False) -> bool:
    """Whether `candidate` cannot be true where all `truths` are, as far as can be told.

    Sentences of the scenes' language are judged by what they claim, which is exact because one thing changes: another
    kind of change, another new value, or an attribute that the changed object does not have. So is "nothing changed".
    Other English must bring in a noun or an adjective that no true sentence has, unless the candidate is a true
    sentence `rearranged` on purpose to say the opposite.
    """
    if any(says_no_change(truth) for truth in truths):
        return not says_no_change(candidate)
    if says_no_change(candidate):
        return True
    readable = [truth for truth in map(_claim, truths) if truth is not None]
    if readable:
        claim = _claim(candidate)
        return claim is not None and any(_contradict(claim, truth) for truth in readable)
    if rearranged:
        return True
    known = {meaning_of(word) for truth in truths for word in words_of(truth)}
    return any(is_content(word) and meaning_of(word) not in known for word in words_of(candidate))


def is_false_of_image(candidate: str, things: Sequence[Mapping[str, str]]) -> bool:
    """Whether a sentence about one image of a scene speaks of an object that is not among its `things`."""
    for phrase in PHRASE.findall(candidate.lower()):
        stated = dict(MEANING[word] for word in phrase.split() if word in MEANING)
        if not any(all(thing[name] == value for name, value in stated.items()) for thing in things):
            return True
    return False


@lru_cache(maxsize=1 << 17)
def _claim(caption: str) -> Claim | None:
    try:
        return read_claim(caption)
    except UnreadableError:
        return None


def _contradict(claim: Claim, truth: Claim) -> bool:
    if claim.change_type != truth.change_type or claim.new != truth.new:
        return True
    if claim.subject is None or truth.subject is None:
        return False
    # What is said of the same object twice must agree; relations may both hold.
    true = truth.subject.attributes
    return any(name in true and true[name] != value for name, value in claim.subject.attributes.items())
