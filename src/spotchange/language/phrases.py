"""What the writer can say, as tables of token ids that compiled code reads: synonyms, relations, verbs, sentences.

Every table is PAD-terminated along its last axis; the `*_COUNT` beside it says how many forms there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spotchange.language.vocabulary import PAD_ID, TOKEN_IDS
from spotchange.pairs import CHANGE_TYPES
from spotchange.scene import ATTRIBUTE_VALUES

VALUE = -1  # stands in a verb phrase where the new colour or material goes

SYNONYMS = {
    "cube": ("cube", "block"),
    "sphere": ("sphere", "ball"),
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metal", "metallic", "shiny"),
    "rubber": ("rubber", "matte"),
}
RELATION_FORMS = (
    ("left of", "to the left of", "on the left side of"),
    ("right of", "to the right of", "on the right side of"),
    ("behind",),
    ("in front of",),
)
_BECAME = ("changed to VALUE", "turned VALUE", "became VALUE")
_VERBS = {
    "none": (),
    "color": _BECAME,
    "texture": _BECAME,
    "add": ("has appeared", "has been newly placed", "has been added"),
    "drop": ("has disappeared", "is missing", "is gone", "is no longer there"),
    "move": ("changed its location", "is in a different location", "moved", "was moved"),
}
_NO_CHANGE = (
    "no change was made",
    "there is no change",
    "the two scenes seem identical",
    "the scene is the same as before",
    "the scene remains the same",
    "nothing has changed",
    "nothing was modified",
    "no change has occurred",
    "there is no difference",
)


def _ids(phrase: str, length: int) -> list[int]:
    words = [VALUE if word == "VALUE" else TOKEN_IDS[word] for word in phrase.split()]
    return words + [PAD_ID] * (length - len(words))


def _table(rows: Sequence[Sequence[str]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of alternative phrases -> ids (rows, forms, length + 1) and the number of forms of each row."""
    most = max(len(forms) for forms in rows)
    ids = [[_ids(form, length + 1) for form in [*forms, *[""] * (most - len(forms))]] for forms in rows]
    return np.array(ids, np.int16), np.array([len(forms) for forms in rows], np.int32)


# Attribute words stand in one list, the values of an attribute one after another from ATTRIBUTE_START.
ATTRIBUTE_START = np.cumsum([0, *[len(values) for values in ATTRIBUTE_VALUES]])[:4].astype(np.int32)
ATTRIBUTE_WORDS, ATTRIBUTE_COUNT = _table(
    [SYNONYMS.get(value, (value,)) for values in ATTRIBUTE_VALUES for value in values], 1
)
ANY_OBJECT_WORDS, ANY_OBJECT_COUNT = _table([("object", "thing")], 1)
RELATION_WORDS, RELATION_COUNT = _table(RELATION_FORMS, 5)
VERB_WORDS, VERB_COUNT = _table([_VERBS[name] for name in CHANGE_TYPES], 5)
NO_CHANGE_WORDS, NO_CHANGE_COUNT = _table([_NO_CHANGE], 7)

LEFT, RIGHT, BEHIND, IN_FRONT = range(4)

A_ID, THE_ID, THAT_ID, THERE_ID, THING_ID, IS_ID = (
    TOKEN_IDS[word] for word in ("a", "the", "that", "there", "thing", "is")
)

# [BOS] the 3 attributes and a noun, that is, on the left side of, the 3 attributes and a noun,
# is in a different location [EOS]
MAX_WORDS = 1 + 5 + 2 + 5 + 5 + 5 + 1
