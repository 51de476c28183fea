"""The sentences that a model learns to write: frames with a slot for the thing and one for what took its place.

Kind, place, direction and colour are words of the sentence; the names of things are not. They come from a second look
and are put into the slots as specifically as the evidence allows (`naming.py`), so that a frame is learnt from every
thing there is, and no name is a guess of the language.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from spotchange.everyday.language.colours import COLOURS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

THING, OTHER = "slot1", "slot2"
SPECIAL = ("[PAD]", "[BOS]", "[EOS]", "[UNK]")
PAD, BOS, EOS, UNK = range(4)
LONGEST = 24  # words of a frame, begin and end included

PLACES = (
    "at the top left",
    "at the top",
    "at the top right",
    "on the left",
    "in the middle",
    "on the right",
    "at the bottom left",
    "at the bottom",
    "at the bottom right",
)
DIRECTIONS = ("to the left", "to the right", "up", "down")
SIZES = ("larger", "smaller")
# Facts that a frame asks for, in the order of `frame_facts`.
FACTS = {"{before}": PLACES, "{after}": PLACES, "{way}": DIRECTIONS, "{colour}": COLOURS, "{size}": SIZES}
FRAMES: dict[str, tuple[str, ...]] = {
    "none": ("nothing has changed", "there is no change", "the two pictures show the same"),
    "add": (f"a {THING} was added {{after}}", f"there is a new {THING} {{after}}", f"a {THING} appeared {{after}}"),
    "drop": (f"the {THING} {{before}} is gone", f"the {THING} {{before}} was removed"),
    "move": (f"the {THING} {{before}} moved {{way}}", f"the {THING} moved {{way}} and is now {{after}}"),
    "replace": (
        f"the {THING} {{before}} was replaced by a {OTHER}",
        f"a {OTHER} took the place of the {THING} {{before}}",
    ),
    "color": (f"the {THING} {{before}} is now {{colour}}", f"the {THING} {{before}} turned {{colour}}"),
    "turn": (f"the {THING} {{before}} was turned", f"the {THING} {{before}} lies another way"),
    "split": (f"the {THING} {{before}} came apart in two pieces", f"the {THING} {{before}} is now in two pieces"),
    "resize": (f"the {THING} {{before}} is now {{size}}", f"the {THING} {{before}} became {{size}}"),
    "brighter": ("the whole picture is brighter", "the light is brighter everywhere"),
    "darker": ("the whole picture is darker", "it is darker everywhere"),
    "blur": ("the whole picture is blurred", "the picture lost its sharpness"),
    "crop": ("the picture was cropped", "a smaller part of the scene is shown"),
    "mirror": ("the picture was mirrored", "left and right are exchanged"),
    "gray": ("the picture lost its colors", "the picture is now black and white"),
    "tint": ("the whole picture has another tint", "the colors of the whole picture have shifted"),
}


def _words() -> tuple[str, ...]:
    texts = [text for frames in FRAMES.values() for text in frames]
    texts += [phrase for phrases in FACTS.values() for phrase in phrases]
    return tuple(sorted({word for text in texts for word in text.split() if not word.startswith("{")}))


TOKENS = SPECIAL + _words()
TOKEN_IDS = {token: number for number, token in enumerate(TOKENS)}


def build_tokenizer() -> Tokenizer:
    """Whole words, in lower case; begin and end are put around."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel(dict(TOKEN_IDS), unk_token=SPECIAL[UNK]))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL[BOS]} $A {SPECIAL[EOS]}", special_tokens=[(SPECIAL[BOS], BOS), (SPECIAL[EOS], EOS)]
    )
    return tokenizer


def frame_text(ids: list[int]) -> str:
    """The words of token ids, up to the end."""
    words = []
    for number in ids:
        if number == EOS:
            break
        if number >= len(SPECIAL):
            words.append(TOKENS[number])
    return " ".join(words)


def frame_kind(text: str) -> str | None:
    """The kind of change that a frame says; None for what is no frame."""
    return next((kind for kind, pattern in _frame_patterns() if pattern.fullmatch(text)), None)


@cache
def _frame_patterns() -> list[tuple[str, re.Pattern[str]]]:
    patterns = []
    for kind, frames in FRAMES.items():
        for frame in frames:
            pattern = re.escape(frame)
            for fact, phrases in FACTS.items():
                pattern = pattern.replace(re.escape(fact), "(?:" + "|".join(map(re.escape, phrases)) + ")")
            patterns.append((kind, re.compile(pattern)))
    return patterns


def stated(
    kind: str,
    *,
    before: str | None = None,
    after: str | None = None,
    way: str | None = None,
    colour: str | None = None,
    size: str | None = None,
) -> str:
    """A kind's first frame with the facts that are known; the others are left out."""
    frame = FRAMES[kind][0]
    if colour is None:
        frame = frame.replace("is now {colour}", "has another color")
    if size is None:
        frame = frame.replace("is now {size}", "has another size")
    facts = {"{before}": before, "{after}": after, "{way}": way, "{colour}": colour, "{size}": size}
    words = (facts.get(word, word) for word in frame.split())
    return " ".join(word for word in words if word)


def plain_frame(kind: str, heat: npt.NDArray[np.floating]) -> str:
    """A kind's first frame with the places that the heat (2, rows, columns) shows."""
    before, after = (PLACES[_hottest_place(each)] for each in heat)
    return stated(kind, before=before, after=after, way=DIRECTIONS[_direction(heat)])


def _hottest_place(heat: npt.NDArray[np.floating]) -> int:
    row, column = np.unravel_index(int(heat.argmax()), heat.shape)
    y, x = (row + 0.5) / heat.shape[0], (column + 0.5) / heat.shape[1]
    return int(3 * ((y > 0.36) + (y > 0.64)) + (x > 0.36) + (x > 0.64))


def _direction(heat: npt.NDArray[np.floating]) -> int:
    before, after = (np.unravel_index(int(each.argmax()), each.shape) for each in heat)
    down, across = int(after[0]) - int(before[0]), int(after[1]) - int(before[1])
    return int(across > 0) if abs(across) >= abs(down) else 2 + int(down > 0)
