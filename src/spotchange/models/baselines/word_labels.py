"""Labels of words that some systems learn beside the sentence: parts of speech, and the words worth a tag.

The published programs read a tagger's and a parser's files. Here a word type has one part of speech, from a list of the
generated captions' words and common function words, else from its ending.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from spotchange.language import SPECIAL_TOKENS

TAGS = ("NOUN", "VERB", "ADJ", "ADV", "PRON", "DET", "ADP", "NUM", "CONJ", "PRT", "PUNCT", "X")
LABELS = len(TAGS) + 4  # and padding, unknown, begin, end
TAG_WORDS = 50

_KNOWN = {
    "DET": "a an the no that this these those all some another any",
    "VERB": "is was are were be been has have had became made seem seems remains remain appeared disappeared added "
    "changed moved turned placed occurred missing modified gone built",
    "ADJ": "big large small tiny blue brown cyan gray green purple red yellow metal metallic rubber matte shiny "
    "different same identical new bare",
    "ADV": "newly longer not there now",
    "PRON": "its it they nothing something",
    "ADP": "in of on to behind before as at by from with near over under beside",
    "NUM": "one two three four five several many",
    "CONJ": "and or but",
}
_TAG_OF = {word: tag for tag, words in _KNOWN.items() for word in words.split()}
# What the published list of 50 tag words leaves out of the 72 of CLEVR-Change.
_WITHOUT_TAG = "a as been before behind front has in is its of on scene scenes seem side that the thing to two was"


def part_of_speech(word: str) -> int:
    """Number of a word's label, below `LABELS`."""
    if word in SPECIAL_TOKENS[:4]:
        return len(TAGS) + SPECIAL_TOKENS.index(word)
    if word.startswith("[") or not word:
        return TAGS.index("X")
    tag = _TAG_OF.get(word) or ("VERB" if word.endswith(("ed", "ing")) else "ADV" if word.endswith("ly") else "NOUN")
    return TAGS.index(tag)


def tag_numbers(words: list[str]) -> list[int]:
    """For every word the number of its tag, below `TAG_WORDS`, or -1; content words in the order they come."""
    numbers: list[int] = []
    given = 0
    for word in words:
        wanted = given < TAG_WORDS and word and not word.startswith("[") and word not in _WITHOUT_TAG.split()
        numbers.append(given if wanted else -1)
        given += bool(wanted)
    return numbers


def relation(label: int, following: int) -> int:
    """A stand-in for NCT's 49 dependency labels: what a word is, and what follows it, in 7 groups each."""
    return 7 * _GROUPS[label] + _GROUPS[following]


_GROUPS = [{"NOUN": 0, "VERB": 1, "ADJ": 2, "DET": 3, "ADP": 4, "ADV": 5}.get(tag, 6) for tag in TAGS] + [6] * 4
RELATIONS = 49


def label_loss(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """Mean cross-entropy of labels (pairs, words) where they are `counted`; scores (pairs, words, kinds of label)."""
    losses = F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten(), reduction="none")
    return (losses * counted.flatten()).sum() / counted.sum().clamp(min=1)
