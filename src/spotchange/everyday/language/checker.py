"""An independent judge of sentences about everyday pairs: it reads them word by word and knows no template.

Whatever a sentence claims, the kind of change, a name, a colour, a place, a direction, a neighbour, must be true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations

from spotchange.everyday.kinds import Facts, single_changes
from spotchange.everyday.language.colours import COLOURS
from spotchange.everyday.language.nouns import everyday_nouns

_KIND_SIGNS = {
    "add": r"\b(added|appeared|is new|there is now|there is a new|new|someone put|now to be seen)\b",
    "drop": r"\b(gone|removed|taken away|no longer|disappeared|missing)\b",
    "move": r"\b(moved)\b",
    "replace": r"\b(replaced|took the place|exchanged for|where .* was|instead of)\b",
    "turn": r"\b(turned|another way)\b",
    "split": r"\btwo pieces\b",
    "resize": r"\b(larger|smaller)\b",
}
_WHOLE_SIGNS = {
    "none": r"\b(nothing has|no change|the same|nothing is different)\b",
    "brighter": r"\b(brighter|more light)\b",
    "darker": r"\b(darker|less light)\b",
    "blur": r"\b(blurred|sharpness|sharp)\b",
    "crop": r"\b(cropped|smaller part|part of the scene|cut at its edges|narrower)\b",
    "mirror": r"\b(mirrored|exchanged|flipped|was left is now right)\b",
    "gray": r"\b(lost its colors|black and white|colors are gone|turned gray|no colors)\b",
    "tint": r"\b(tint|shifted|another color)\b",
}
_CLAUSES = r"[;.]|,? and (?!is now\b)"
_MEASURES = "pair|bunch|stack|portion|set|chest"
_SPOKEN = {
    "piece of furniture": "furniture",
    "piece of clothing": "clothing",
    "food item": "food",
    "kitchen item": "tableware",
    "electronic device": "electronics",
    "piece of packaging": "packaging",
    "paper item": "paper",
    "piece of stationery": "stationery",
    "piece of sports gear": "sports gear",
    "piece of headwear": "headwear",
}


@dataclass(frozen=True, kw_only=True)
class SentenceVerdict:
    """Whether a sentence is true, and what is wrong with it."""

    true: bool
    wrong: tuple[str, ...] = ()


def check(sentence: str, facts: Facts, *, size: tuple[int, int]) -> SentenceVerdict:
    """Judge a sentence about a pair of images of `size` (width, height).

    Of a pair with several changes every clause must hold of another one of them; none need be told.
    """
    singles = single_changes(facts)
    if len(singles) == 1:
        return _check_clause(sentence, facts, size)
    clauses = [each for each in re.split(_CLAUSES, sentence.lower()) if each.strip()] or [sentence]
    verdicts = [[_check_clause(clause, each, size) for each in singles] for clause in clauses]
    wrong: list[str] = []
    for of_changes in verdicts:
        nearest = min(of_changes, key=lambda verdict: len(verdict.wrong))
        wrong += nearest.wrong
    if not wrong and not any(
        all(verdicts[clause][change].true for clause, change in enumerate(order))
        for order in permutations(range(len(singles)), len(clauses))
    ):
        wrong.append("tells one change twice")
    return SentenceVerdict(true=not wrong, wrong=tuple(wrong))


def _check_clause(clause: str, facts: Facts, size: tuple[int, int]) -> SentenceVerdict:
    """Judge what is said of one change."""
    text = " ".join(clause.lower().replace(".", " ").split())
    for spoken, noun in _SPOKEN.items():
        text = text.replace(spoken, noun)
    kind, wrong = facts["kind"], []
    if facts["target"] is None:
        if not re.search(_WHOLE_SIGNS[kind], text):
            wrong.append(f"does not say '{kind}'")
        return SentenceVerdict(true=not wrong, wrong=tuple(wrong))
    thing = facts["things"][facts["target"]]
    if kind == "color":
        if not re.search(rf"\b(now|turned|became|become) {thing['colours'][1]}\b", text):
            wrong.append("wrong new color")
    elif not re.search(_KIND_SIGNS[kind], text):
        wrong.append(f"does not say '{kind}'")
    text = _without_neighbours(text, facts, size, wrong)
    _check_names(text, facts, wrong)
    _check_colours(text, facts, wrong)
    _check_places(text, facts, size, wrong)
    _check_ways(text, facts, wrong)
    return SentenceVerdict(true=not wrong, wrong=tuple(wrong))


def _mentions(text: str) -> list[str]:
    """Nouns of the tree in a text, the longest reading of each word, in their order."""
    names = sorted(everyday_nouns().names, key=len, reverse=True)
    pattern = "|".join(rf"\b{re.escape(name)}\b" for name in names)
    text = re.sub(rf"\bsomething (new )?({'|'.join(COLOURS)})\b", "something", text)
    # Words of place and of whole sentences that are also nouns.
    text = re.sub(r"\b(took the place|the color|the picture|two pieces)\b", " ", text)
    text = re.sub(r"\b(turned|now|became|become) orange\b", " ", text)
    return re.findall(pattern, text)


def _check_names(text: str, facts: Facts, wrong: list[str]) -> None:
    thing, tree = facts["things"][facts["target"]], everyday_nouns()
    allowed = [noun for noun, box in zip(thing["nouns"], thing["boxes"], strict=True) if box is not None]
    for mention in _mentions(_without_colour_of_fruit(text)):
        if not any(noun is not None and tree.is_a(noun, mention) for noun in allowed):
            wrong.append(f"no {mention} changed")


def _without_colour_of_fruit(text: str) -> str:
    """ "orange" before another word is a colour."""
    verbs = "was|is|has|that|moved|came|became|turned|at|on|in|next|behind|lies|broke|looks|got|took|faces|into|by"
    return re.sub(rf"\borange (?=[a-z])(?!({verbs}|can be)\b)", " ", text)


def _check_colours(text: str, facts: Facts, wrong: list[str]) -> None:
    thing = facts["things"][facts["target"]]
    colours = set(thing["colours"])
    for colour in COLOURS[:-1]:
        if colour == "orange" and "orange" in (thing["nouns"][0], thing["nouns"][1]):
            continue
        if re.search(rf"\b{colour}\b", text) and colour not in colours:
            wrong.append(f"not {colour}")


def _check_places(text: str, facts: Facts, size: tuple[int, int], wrong: list[str]) -> None:
    """Every place that is named must hold the thing in one of the images, in the order they are named."""
    boxes = [box for box in facts["things"][facts["target"]]["boxes"] if box is not None]
    if facts["kind"] == "add":
        boxes = boxes[-1:]
    named = re.findall(r"\b(?:at the|on the|in the) ((?:top|bottom|middle|left|right)(?: left| right)?)\b", text)
    now = " is now at" in text or " is now on" in text or " is now in" in text
    for number, place in enumerate(named):
        box = boxes[-1] if number or (now and len(named) == 1) else boxes[0]
        x, y = (box[0] + box[2] / 2) / size[0], (box[1] + box[3] / 2) / size[1]
        across = "left" if x <= 0.36 else "right" if x > 0.64 else ""
        down = "top" if y <= 0.36 else "bottom" if y > 0.64 else ""
        if place != (" ".join(each for each in (down, across) if each) or "middle"):
            wrong.append(f"not at the {place}")


def _check_ways(text: str, facts: Facts, wrong: list[str]) -> None:
    before, after = facts["things"][facts["target"]]["boxes"]
    if before is None or after is None:
        return
    across = after[0] + after[2] / 2 - before[0] - before[2] / 2
    down = after[1] + after[3] / 2 - before[1] - before[3] / 2
    claims = {
        r"\bto the left\b": across < 0,
        r"\bto the right\b": across > 0,
        r"\bmoved up\b": down < 0,
        r"\bmoved down\b": down > 0,
        r"\blarger\b": after[2] * after[3] > before[2] * before[3],
        r"\bsmaller\b": after[2] * after[3] < before[2] * before[3],
    }
    wrong += [f"wrong: {pattern[2:-2]}" for pattern, holds in claims.items() if re.search(pattern, text) and not holds]


def _without_neighbours(text: str, facts: Facts, size: tuple[int, int], wrong: list[str]) -> str:
    """Takes "next to the laptop" and the like out of a sentence, after checking that it holds of some laptop."""
    tree = everyday_nouns()
    side = 1 if facts["kind"] == "add" else 0
    own = facts["things"][facts["target"]]["boxes"][side]
    names = sorted(tree.names, key=len, reverse=True)
    pattern = rf"\b(next to|in front of|behind) the (?:(?:{_MEASURES}) of )?({'|'.join(map(re.escape, names))})\b"
    for relation, noun in re.findall(pattern, text):
        others = [
            thing["boxes"][side]
            for place, thing in enumerate(facts["things"])
            if place != facts["target"]
            and thing["boxes"][side] is not None
            and thing["nouns"][side] is not None
            and tree.is_a(thing["nouns"][side], noun)
        ]
        if not any(_stands(relation, own, box, size) for box in others):
            wrong.append(f"not {relation} the {noun}")
    return re.sub(pattern, " ", text)


def _stands(relation: str, own: list[int], other: list[int], size: tuple[int, int]) -> bool:
    if relation == "next to":
        gap_x = max(own[0] - other[0] - other[2], other[0] - own[0] - own[2])
        gap_y = max(own[1] - other[1] - other[3], other[1] - own[1] - own[3])
        return max(gap_x, gap_y) < 0.12 * max(size)
    front, back = (own, other) if relation == "in front of" else (other, own)
    sideways = min(front[0] + front[2], back[0] + back[2]) - max(front[0], back[0])
    return sideways > 0 and front[1] + front[3] > back[1] + back[3]
