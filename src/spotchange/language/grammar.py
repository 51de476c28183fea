"""Reads a sentence about two images: what kind of change it claims, of which object, and what became of it.

A grammar of its own, kept apart from the writer's tables on purpose: a mistake there must not hide here. It takes
more than the writer says (attributes in any order, other tenses, "there is no longer a ..."), since models do too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

COLOR_WORDS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
MATERIAL_WORDS = {"rubber": "rubber", "matte": "rubber", "metal": "metal", "metallic": "metal", "shiny": "metal"}
SHAPE_WORDS = {"cube": "cube", "block": "cube", "sphere": "sphere", "ball": "sphere", "cylinder": "cylinder"}
SIZE_WORDS = {"large": "large", "big": "large", "small": "small", "tiny": "small"}
MEANING = (
    {word: ("color", word) for word in COLOR_WORDS}
    | {word: ("material", value) for word, value in MATERIAL_WORDS.items()}
    | {word: ("shape", value) for word, value in SHAPE_WORDS.items()}
    | {word: ("size", value) for word, value in SIZE_WORDS.items()}
)
ANY_OBJECT = ("object", "thing")
OTHER_WORDS = (
    "a added appeared as became been before behind change changed difference different disappeared front gone has "
    "identical in is its left location longer made missing modified moved newly no nothing occurred of on placed "
    "remains right same scene scenes seem side that the there to turned two was"
)
KNOWN_WORDS = frozenset({*MEANING, *ANY_OBJECT, *OTHER_WORDS.split()})

_VALUE = "|".join([*COLOR_WORDS, *MATERIAL_WORDS])
_HELP = r"(?:(?:has|is|was) )?(?:been )?"
# What follows the subject. Only at the end of the sentence: "the cube that moved is gone" is not in the language.
_VERBS = (
    ("value", rf"{_HELP}(?:changed to|turned to|turned|became)(?: a)? (?P<value>{_VALUE})"),
    ("add", rf"{_HELP}(?:newly )?(?:appeared|placed|added)(?: (?:in|to) the scene)?"),
    ("drop", r"(?:has )?disappeared|(?:has|is|was) (?:gone|missing)|is no longer (?:there|in the scene)"),
    ("move", rf"{_HELP}moved(?: to a different location)?|(?:has )?changed (?:its )?location"),
    ("move", r"(?:is|was) (?:in|on|at) a different location"),
)
_VERBS_AT_END = tuple((kind, re.compile(rf"(?:^|\s)(?:{pattern})$")) for kind, pattern in _VERBS)
_THERE_FIRST = (
    ("drop", re.compile(r"^there is no longer (?P<subject>(?:a|the) .+)$")),
    ("add", re.compile(r"^there is (?P<subject>(?:a|the) newly (?:added|placed) .+)$")),
)
_RELATION = re.compile(
    r"^(?P<object>.*?)(?: that (?:is|was))? (?:(?:(?:to|on|in) )?(?:the )?(?P<side>left|right)(?: side)? of|"
    r"(?P<behind>behind)|(?:in )?(?:the )?(?P<front>front) of) (?P<anchor>.+)$"
)

# Sentences of the language that say nothing changed, whole.
_NO_CHANGE = re.compile(
    r"(?:there (?:is|was|has been) )?no (?:change|difference)(?: (?:is|was|has been) made| (?:has )?occurred| there)?"
    r"|nothing (?:(?:has|is|was) )?(?:been )?(?:changed|modified|moved|different|added|disappeared)"
    r"|the (?:two )?scenes? (?:is|was|remains|seem|has)(?: in)? (?:the )?(?:same|identical)(?: as before| to before)?"
)
# The same in anybody's words: enough to tell "no change" from "change" on any data set.
_FREE_NO_CHANGE = re.compile(
    r"\bno (?:\w+ ){0,2}?(?:changes?|diff\w*)\b"  # people write "differnce" and "no different"
    r"|\b(?:nothing|not much) (?:\w+ ){0,7}?(?:changed?|different|modified|happened|moved)\b|^nothing$"
    r"|\b(?:has|have|is|are|did|do|does)(?: not|n t)(?: \w+)? (?:changed?|different|differ)\b"
    r"|\b(?:can ?not|can t|do not|don t|could not|unable to) (?:see|find|spot|detect|notice|tell) (?:a|any|the) "
    r"(?:\w+ )?(?:changes?|differences?)\b"
    r"|\b(?:scenes?|images?|pictures?|photos?|photographs?|frames?|views?|both|they|everything|all)(?: both)?"
    r"(?: is| are| was| were| seems?| appears?| looks?| remains?| stays?)?(?: to be| to look)?(?: \w+ly| almost)?"
    r"(?: the)? (?:same|identical|unchanged|alike)(?: as\b| to\b| in both\b|$)"
    r"|^(?:same|identical|unchanged)(?: (?:scenes?|images?|pictures?))?$"
)
_BUT = re.compile(
    r"\b(?:but|except|however|only|besides|other than|apart from"
    r"|no (?:other|further|more|additional)|nothing (?:else|more))\b"
)


class UnreadableError(ValueError):
    """The sentence is not of this language; the message says where it leaves it."""


@dataclass(frozen=True)
class Description:
    """An object as a phrase describes it: stated attributes, and perhaps a relation to another object."""

    attributes: dict[str, str] = field(default_factory=dict)
    relation: str | None = None  # left, right, behind, front
    anchor: Description | None = None


@dataclass(frozen=True)
class Claim:
    """What a sentence says: the change type ("none" for no change), of whom, and the new value."""

    change_type: str
    subject: Description | None = None
    new: str | None = None


def read_claim(caption: str) -> Claim:
    """Parse a caption, or raise `UnreadableError`."""
    text = _plain(caption)
    if not text:
        raise UnreadableError("the sentence is empty")
    unknown = [word for word in text.split() if word not in KNOWN_WORDS]
    if unknown:
        raise UnreadableError(f"unknown word '{unknown[0]}'")
    if _NO_CHANGE.fullmatch(text):
        return Claim("none")
    kind, new, subject = _split_verb(text)
    if kind is None:
        raise UnreadableError("no known change is said to have happened")
    return Claim(kind, read_description(subject), new)


def read_description(phrase: str) -> Description:
    """Parse "the big red cube [that is] left of the ball", attributes in any order."""
    related = _RELATION.match(phrase)
    words = (related["object"] if related else phrase).split()
    if words and words[0] in ("the", "a"):
        words = words[1:]
    attributes: dict[str, str] = {}
    nouns = 0
    for word in words:
        nouns += word in ANY_OBJECT or word in SHAPE_WORDS
        if word in ANY_OBJECT:
            continue
        if word not in MEANING:
            raise UnreadableError(f"'{word}' does not describe an object")
        attribute, value = MEANING[word]
        if attribute in attributes:
            raise UnreadableError(f"the {attribute} of an object is said twice")
        attributes[attribute] = value
    if nouns != 1:
        raise UnreadableError("a phrase must have one noun")
    if not related:
        return Description(attributes)
    relation = related["side"] or related["behind"] or related["front"]
    return Description(attributes, relation, read_description(related["anchor"]))


def change_type_of(caption: str) -> str | None:
    """The change a caption speaks of, classified by its verb alone, so a garbled object does not matter.

    Returns:
        "none", "color", "texture", "add", "drop", "move", or None where no verb of the language is found.
    """
    if says_no_change(caption):
        return "none"
    return _split_verb(_plain(caption))[0]


@lru_cache(maxsize=1 << 17)  # negatives hold the captions of a set against many others
def says_no_change(caption: str) -> bool:
    """Whether a sentence, in this language or in free English, says that nothing changed."""
    text = _plain(caption)
    return bool(_NO_CHANGE.fullmatch(text) or (_FREE_NO_CHANGE.search(text) and not _BUT.search(text)))


def _plain(caption: str) -> str:
    """Lower case, words only, single spaces."""
    return " ".join(re.findall(r"\w+", caption.lower()))


def _split_verb(text: str) -> tuple[str | None, str | None, str]:
    """Change type, new value and the words of the subject; None for the type where no verb fits."""
    for kind, pattern in _THERE_FIRST:
        found = pattern.match(text)
        if found:
            return kind, None, re.sub(r"\bnewly (?:added|placed) ", "", found["subject"])
    for kind, pattern in _VERBS_AT_END:
        found = pattern.search(text)
        if not found:
            continue
        subject = re.sub(r"^there (?:is|was) | that$", "", text[: found.start()])
        if kind != "value":
            return kind, None, subject
        value = found["value"]
        kind = "color" if value in COLOR_WORDS else "texture"
        return kind, MATERIAL_WORDS.get(value, value), subject
    return None, None, text
