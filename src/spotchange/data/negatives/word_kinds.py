"""Which words of a caption set can stand for one another: colours, sizes, shapes, other adjectives, other nouns.

There is no tagger to download: a few closed lists say what is no noun or adjective, and the neighbours a word has over
the whole set say which of the two it is. That is enough to put another noun where a noun stood.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from spotchange.language import MEANING

_LARGE = 200  # words

WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[.,;:!?]")

COLORS = (
    "red orange yellow green blue purple violet pink brown black white gray grey cyan gold golden silver tan beige "
    "cream rust maroon olive teal turquoise navy crimson scarlet buff rufous chestnut greenish bluish yellowish "
    "brownish grayish greyish reddish whitish blackish"
)
SIZES = "large big huge small tiny little long short tall wide narrow thick thin larger bigger smaller shorter"
NUMBERS = "one two three four five six seven eight nine ten several many few"
_LISTED = {
    word: kind for kind, words in (("color", COLORS), ("size", SIZES), ("number", NUMBERS)) for word in words.split()
}
_SAME_MEANING = {"grey": "gray", "big": "large", "little": "small", "tiny": "small", "golden": "gold"}

_DETERMINERS = (
    "a an the this that these those its his her their our your my each every some any no another other both all"
)
_COPULAS = "is are was were be been being has have had seems seem appears looks remains stays"
_OTHERS = (
    "and or but while whereas than then as if because so not nor also too very much more less most least only "
    "just slightly now there here where when which who whose whom what it he she they them we you i me him us s t "
    "of to in on at by for from with without into onto over under near beside behind between above below "
    "across around through off out up down toward towards next front left right side top bottom middle along "
    "against before after during can could will would may might must shall should do does did same different "
    "longer changed change changes moved move moves turned turn became become appeared appear disappeared "
    "disappear gone missing added add removed remove placed place modified occurred made make show shows see seen"
)
COPULAS = frozenset(_COPULAS.split())
_FUNCTION = frozenset(_DETERMINERS.split()) | COPULAS | frozenset(_OTHERS.split())


def words_of(caption: str) -> list[str]:
    """Lower-case words and sentence marks."""
    return WORD.findall(caption.lower())


def meaning_of(word: str) -> str:
    """Equal for words that mean the same as far as is known: cube and block, grey and gray, bird and birds."""
    if word in MEANING:
        return MEANING[word][1]
    word = _SAME_MEANING.get(word, word)
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class WordKinds:
    """The kinds of all words in a set of captions, and what each can be replaced by."""

    def __init__(self, captions: Iterable[str]) -> None:
        votes: dict[str, Counter[str]] = defaultdict(Counter)
        for caption in captions:
            words = words_of(caption)
            for place, word in enumerate(words):
                if is_content(word):
                    votes[word][_voted(words, place)] += 1
        self._kinds = {word: _listed(word) or counts.most_common(1)[0][0] for word, counts in votes.items()}
        frequency = {word: sum(counts.values()) for word, counts in votes.items()}
        members: dict[str, list[str]] = defaultdict(list)
        least = 3 if len(votes) > _LARGE else 1  # in a large set a word seen once or twice is often a slip
        for word in sorted(self._kinds, key=lambda word: (-frequency[word], word)):
            if frequency[word] >= least:
                members[self._kinds[word]].append(word)
        for kind in [kind for kind in members if kind not in ("noun", "adjective")]:
            if len({meaning_of(word) for word in members[kind]}) < 2:  # nothing of its kind: look further
                wider = "noun" if kind == "shape" else "adjective"
                for word in members.pop(kind):
                    self._kinds[word] = wider
                    members[wider].append(word)
        self._members = dict(members)

    def kind(self, word: str) -> str | None:
        """Kind of a noun or adjective of the set; None for every other word."""
        return self._kinds.get(word)

    def others(self, word: str) -> list[str]:
        """Words of the same kind that mean something else, the most frequent first."""
        kind = self._kinds.get(word)
        if kind is None:
            return []
        return [other for other in self._members.get(kind, ()) if meaning_of(other) != meaning_of(word)]


def is_content(word: str) -> bool:
    """Whether a word may be a noun or an adjective: not a function word, not plainly a verb, not a sentence mark."""
    if _listed(word):
        return True
    # Digits mark names of their own, such as animal1.
    return word.isalpha() and word not in _FUNCTION and not (len(word) > 4 and word.endswith(("ing", "ed", "ly")))


def _listed(word: str) -> str | None:
    return MEANING[word][0] if word in MEANING else _LISTED.get(word)


def _voted(words: list[str], place: int) -> str:
    """What a word seems to be here: an adjective before another content word or after "is", else a noun."""
    follows = words[place + 1] if place + 1 < len(words) else "."
    if is_content(follows):
        return "adjective"
    return "adjective" if place > 0 and words[place - 1] in COPULAS else "noun"
