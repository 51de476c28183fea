"""Reads the text of what changed, with the extra `text`; only the lines concerned, so it stays fast."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.regions import around
from spotchange.comparison.place.colours import most_common, pack
from spotchange.comparison.place.parts import rescaled, whole_lines
from spotchange.comparison.place.patches import patch_at
from spotchange.comparison.place.textlike import text_lines
from spotchange.comparison.result import Finding, Mask
from spotchange.errors import MissingExtraError
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

MOST_READ = 6  # findings; the summary names three
MOST_LINES = 3
LINE_HEIGHTS = (5, 90)
SUREST = 0.85  # of the recogniser's own score, below which a line counts as unread: made-up words have 0.5 to 0.7
LONGEST_QUOTE = 60
BUTTON_HEIGHTS, WIDEST_BUTTON = (18, 64), 320
SAME_LINE = 3  # pixels
TALLER = 14  # rows that letters may reach beyond the rows in which they differ
BELOW = 0.3  # of a line's height
FILLED, ROUND = 0.5, 4  # of a button in its own colour; pixels of its corners
PAD = 4
# What a sentence about something that came, went or moved begins with.
_SUBJECT = re.compile(r"^(text|something|an? [a-z ]*?(part|block|row|box|shape|line|picture))(?= )")

# What stands before an item of a list, as the reader takes it.
_BULLET = re.compile(r"^[•·。．●▪■◦○]\s*(?=\w)")


def can_read() -> bool:
    """Whether the extra is installed."""
    return all(importlib.util.find_spec(name) for name in ("rapidocr", "onnxruntime"))


def read_findings(findings: Sequence[Finding], before: Pixels, after: Pixels, *, wanted: bool | None) -> list[Finding]:
    """The findings with what their text says, where it can be read.

    Raises:
        MissingExtraError: reading is wanted and the extra is not installed.
    """
    if wanted is False or (wanted is None and not can_read()):
        return list(findings)
    if not can_read():
        raise MissingExtraError("reading text in images", extra="text")
    done = []
    for number, finding in enumerate(findings):
        readable = number < MOST_READ and finding.kind in _READERS
        done.append(_READERS[finding.kind](finding, before, after) if readable else finding)
    return done


def _read_change(finding: Finding, before: Pixels, after: Pixels) -> Finding:
    """Text on both sides: what it said and what it says, and whether that is the same."""
    if not finding.boxes_before or not finding.boxes_after:
        return finding
    box_old, box_new = _same_rows(around(finding.boxes_before), around(finding.boxes_after))
    old, new = _read_piece(box_old, before), _read_piece(box_new, after)
    if not old or not new:
        return finding
    old, new = evenly_spaced(old, new)
    read = replace(finding, text_before=old, text_after=new)
    said, says = changed_words(old, new)
    tail = finding.sentence[finding.sentence.index(";") :] if ";" in finding.sentence else ""
    if not said and not says:
        if finding.kind == "text":
            return _same_text(read, old, tail)
        return replace(read, sentence=finding.sentence.replace("the text", f"the text {quoted(old)}", 1))
    if finding.kind != "text" and len(said.split()) < 0.5 * len(old.split()):
        return read  # a letter misread in another weight is no other text
    if finding.kind == "resized":
        return read
    sentence = f"the text {quoted(said)} changed to {quoted(says)}"
    if not said or not says:
        sentence = f"the text {quoted(says or said)} was {'added' if says else 'removed'}"
    return replace(read, kind="text", sentence=sentence + tail)


def _same_rows(old: Box, new: Box) -> tuple[Box, Box]:
    """Two places on one line with the same rows: what is a gap between words depends on the height."""
    top, bottom = min(old[1], new[1]), max(old[1] + old[3], new[1] + new[3])
    if bottom - top > max(old[3], new[3]) + SAME_LINE:
        return old, new
    return (old[0], top, old[2], bottom - top), (new[0], top, new[2], bottom - top)


def _same_text(finding: Finding, text: str, tail: str) -> Finding:
    """What reads the same is no other text: it has another size or another style."""
    old, new = around(finding.boxes_before), around(finding.boxes_after)
    wider, taller = new[2] - old[2], new[3] - old[3]
    both = wider * taller > 0 and min(abs(wider), abs(taller)) >= 2  # another weight is wider alone
    if (abs(taller) > 0.1 * old[3] and wider * taller >= 0) or both or rescaled(new[2] / old[2], new[3] / old[3]):
        larger = "larger" if taller + wider > 0 else "smaller"
        return replace(finding, kind="resized", sentence=f"the text {quoted(text)} became {larger}{tail}")
    return replace(finding, kind="restyled", sentence=f"the text {quoted(text)} looks different{tail}")


def _read_one(finding: Finding, before: Pixels, after: Pixels) -> Finding:
    """Text that came, went or moved."""
    gone = bool(finding.boxes_before)
    boxes, pixels = (finding.boxes_before, before) if gone else (finding.boxes_after, after)
    if len(boxes) != 1 or boxes[0][3] > 3 * LINE_HEIGHTS[1]:
        return finding
    text = read_box(boxes[0], pixels)
    if not text:
        return finding
    _, _, width, height = boxes[0]
    button = BUTTON_HEIGHTS[0] <= height <= BUTTON_HEIGHTS[1] and width <= WIDEST_BUTTON
    what = "the button" if button and " box " in finding.sentence else "the text"
    sentence = _SUBJECT.sub(f"{what} {quoted(text)}".replace("\\", r"\\"), finding.sentence, count=1)
    return replace(finding, sentence=sentence, text_before=text if gone else None, text_after=None if gone else text)


_READERS = {
    "text": _read_change,
    "restyled": _read_change,
    "resized": _read_change,
    "appeared": _read_one,
    "disappeared": _read_one,
    "inserted": _read_one,
    "removed": _read_one,
    "moved": _read_one,
}


def changed_words(before: str, after: str) -> tuple[str, str]:
    """The words that differ, without those both begin and end with."""
    old, new = before.split(), after.split()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return " ".join(old), " ".join(new)


def evenly_spaced(before: str, after: str) -> tuple[str, str]:
    """Both texts with the spaces that the reader saw in one of them only made alike, and underlined underscores.

    A gap is a space or none by a fraction of a pixel; beside punctuation there is none, between letters there is.
    """
    old, new = "", ""
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, before, after, False).get_opcodes():
        one, other = before[old_start:old_end], after[new_start:new_end]
        if {one, other} == {"_", " "}:
            one = other = "_"
        elif one.endswith(" ") != other.endswith(" ") and bool(one.strip()) == bool(other.strip()):
            one, other = one.rstrip(), other.rstrip()
            letters = (one or old)[-1:].isalnum() and (other or new)[-1:].isalnum() and before[old_end:][:1].isalnum()
            one, other = (one + " ", other + " ") if letters else (one, other)
        old, new = old + one, new + other
    return old, new


def quoted(text: str) -> str:
    """In quotes, long ones cut."""
    return f"'{text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + '...'}'"


def _read_piece(box: Box, pixels: Pixels) -> str:
    """The text of the words a difference lies in, to the ends of their piece of line, or of the button it is."""
    x, y, width, height = box
    fill, share = most_common(pack(pixels[y : y + height, x : x + width]))
    if share >= FILLED and min(width, height) >= BUTTON_HEIGHTS[0] and fill != patch_at(pixels, pixels, box).ground:
        x, width = _to_the_ends(box, pixels, fill)
        return read_box((x + ROUND, y + ROUND, width - 2 * ROUND, height - 2 * ROUND), pixels)
    ground = patch_at(pixels, pixels, box).ground
    if ground is not None:  # the difference may cover only a part of the letters' height
        y, height = _letter_rows(pack(pixels[:, x : x + width]) != ground, y, height)
    # An underscore lies below the letters: it joins two words only if its rows are looked at.
    below = min(round(BELOW * height), len(pixels) - y - height)
    patch = whole_lines(pixels, pixels, patch_at(pixels, pixels, (x, y, width, height + below)))
    x, width = patch.box_before[0], patch.box_before[2]
    if patch.ground is not None:
        y, height = _letter_rows(pack(pixels[:, x : x + width]) != patch.ground, y, height)
    return read_box((x, y, width, height), pixels)


def _letter_rows(ink: Mask, y: int, height: int) -> tuple[int, int]:
    """The rows of a difference widened to the next rows without ink, a few at most: first row and how many."""
    top, bottom = y, y + height
    while top > max(0, y - TALLER) and ink[top - 1].any():
        top -= 1
    while bottom < min(len(ink), y + height + TALLER) and ink[bottom].any():
        bottom += 1
    return top, bottom - top


def _to_the_ends(box: Box, pixels: Pixels, fill: int) -> tuple[int, int]:
    """Left edge and width of the button that a difference in its colour lies in."""
    x, y, width, height = box
    filled = (pack(pixels[y : y + height]) == fill).mean(axis=0) >= FILLED / 2
    left, right = x, x + width
    while left > 0 and filled[left - 1] and x - left < WIDEST_BUTTON:
        left -= 1
    while right < len(filled) and filled[right] and right - x < WIDEST_BUTTON:
        right += 1
    return left, right - left


def read_box(box: Box, pixels: Pixels) -> str:
    """The text inside a rectangle, line by line; empty if nothing is read with confidence."""
    x, y, width, height = box
    inner = pack(pixels[y : y + height, x : x + width])
    if not inner.size:
        return ""
    ink = inner != most_common(inner)[0]
    read: list[str] = []
    for top, bottom in text_lines(ink)[: 2 * MOST_LINES]:
        if not LINE_HEIGHTS[0] <= bottom - top <= LINE_HEIGHTS[1] or len(read) >= MOST_LINES:
            continue
        line = pixels[max(0, y + top - PAD) : y + bottom + PAD, max(0, x - PAD) : x + width + PAD]
        read.append(_recognise(line))
    return _BULLET.sub("", " ".join(part for part in read if part))


def _recognise(line: Pixels) -> str:
    if min(line.shape[:2]) < 4:
        return ""
    result = _recogniser()(cv2.cvtColor(line, cv2.COLOR_RGB2BGR), use_det=False, use_cls=False, use_rec=True)
    texts, scores = result.txts or (), result.scores or ()
    return " ".join(text.strip() for text, score in zip(texts, scores, strict=False) if score >= SUREST).strip()


@cache
def _recogniser() -> Any:
    """Only the model that reads lines; the one that finds them is never needed."""
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.use_det": False,
            "Global.use_cls": False,
            "Global.log_level": "critical",
            # Many images are compared side by side; threads of one reader would fight over the cores.
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
