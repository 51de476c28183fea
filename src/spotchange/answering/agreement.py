"""A sentence that agrees with the verdict, where none of the model's own candidates does.

The change head decides whether anything changed; the sentence must not say otherwise. A change that every candidate
denies is put into words again, without the words that deny one. No change needs no second search: all sentences that
say so mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spotchange.language import says_no_change
from spotchange.results import Alternative

NO_CHANGE = "there is no change"
SOME_CHANGE = "something has changed"  # for a model that cannot name a change even without the words of denial

# Sentences about a change can do without every one of these: "is no longer there" has three other forms.
_DENYING_WORDS = (
    "no nothing not none never there change difference differences same identical similar unchanged scene scenes "
    "image images two remains remain seem modified made occurred"
)
_NEVER_SAID = 1e4  # taken off a word's log-probability


def denies_wrongly(candidates: Sequence[Alternative]) -> bool:
    """Whether every candidate says that nothing changed."""
    return all(says_no_change(each.text) for each in candidates)


def denying_words(token_id: Callable[[str], int | None]) -> tuple[tuple[int, float], ...]:
    """Penalties that keep a search from denying a change; tokens carry CLIP's mark of a word's end."""
    ids = (token_id(form) for word in _DENYING_WORDS.split() for form in (word, f"{word}</w>"))
    return tuple((id, _NEVER_SAID) for id in ids if id is not None)


def in_agreement(candidates: Sequence[Alternative], *, changed: bool) -> Alternative:
    """The best candidate that says what the verdict says; where there is none, a plain sentence that does."""
    for each in candidates:
        if says_no_change(each.text) != changed:
            return each
    return Alternative(text=SOME_CHANGE if changed else NO_CHANGE, score=min(each.score for each in candidates))
