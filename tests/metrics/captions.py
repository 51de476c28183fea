"""Captions to score: made ones of the generator's kind, and real ones where they are present."""

from __future__ import annotations

import json
import random
from pathlib import Path

SIZES, COLORS = ("large", "small", "big", "tiny"), ("red", "blue", "green", "gray", "cyan")
MATERIALS, SHAPES = ("metal", "rubber", "shiny", "matte"), ("cube", "sphere", "cylinder", "ball")
ENDINGS = (
    "has been added",
    "is no longer there",
    "changed its location",
    "turned {color}",
    "became {color} , didn't it",
    "that is left of the {color} {shape} was moved",
)
NO_CHANGE = ("no change was made", "there is no change", "the two scenes seem identical", "")


def sentence(draw: random.Random) -> str:
    """One caption; some say that nothing changed, a few are empty."""
    if draw.random() < 0.2:
        return draw.choice(NO_CHANGE)
    start = f"the {draw.choice(SIZES)} {draw.choice(COLORS)} {draw.choice(MATERIALS)} {draw.choice(SHAPES)} "
    return start + draw.choice(ENDINGS).format(color=draw.choice(COLORS), shape=draw.choice(SHAPES))


def made(items: int, most_references: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Candidates and references; half of the candidates repeat one of their references."""
    draw = random.Random(seed)
    references = [[sentence(draw) for _ in range(draw.randint(1, most_references))] for _ in range(items)]
    candidates = [draw.choice(texts) if draw.random() < 0.5 else sentence(draw) for texts in references]
    return candidates, references


def spot_the_diff(shared: Path, split: str, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """References of the real data set; each candidate is a reference of its own pair or of the next."""
    rows = json.loads((shared / "data/annotations/spot_the_diff" / f"{split}.json").read_text())
    grouped: dict[str, list[str]] = {}
    for row in rows:
        grouped.setdefault(row["img_id"], []).extend(row["sentences"])
    return _candidates_from([texts for texts in grouped.values() if texts], seed)


def editing_requests(shared: Path, split: str, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """As `spot_the_diff`, for Image-Editing-Request."""
    rows = json.loads((shared / "data/annotations/image_editing_request" / f"{split}.json").read_text())
    return _candidates_from([row["sents"] for row in rows], seed)


def _candidates_from(references: list[list[str]], seed: int) -> tuple[list[str], list[list[str]]]:
    draw = random.Random(seed)
    others = references[1:] + references[:1]
    candidates = [draw.choice(draw.choice(pair)) for pair in zip(references, others, strict=True)]
    return candidates, references
