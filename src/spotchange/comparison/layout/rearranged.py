"""Places whose new content is the old content of other places: parts of a page that flowed on, or were exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.layout.regions import around
from spotchange.comparison.result import Finding
from spotchange.results import Box

Pixels = npt.NDArray[np.uint8]

SAME = 0.985  # of the pixels
SMALLEST = 60  # pixels: anything smaller is found everywhere
_UNCERTAIN = ("replaced", "text", "restyled", "resized", "recoloured", "appeared", "disappeared")


def rearranged(findings: Sequence[Finding], before: Pixels, after: Pixels, size: tuple[int, int]) -> list[Finding]:
    """The findings, with places that merely show what was elsewhere called moved or exchanged."""
    places = [finding for finding in findings if finding.kind in _UNCERTAIN and _area(finding) >= SMALLEST]
    if not 2 <= len(places) <= 40:
        return list(findings)
    sources: dict[int, int] = {}
    for number, finding in enumerate(places):
        source = _source(number, places, before, after) if finding.boxes_after else None
        if source is not None:
            sources[number] = source
    if not sources:
        return list(findings)
    if any(sources.get(other) == number for number, other in sources.items()):
        return _exchanged(findings, places, sources, size)
    return _flowed(findings, places, sources, size)


def _area(finding: Finding) -> int:
    return max((width * height for _, _, width, height in (*finding.boxes_before, *finding.boxes_after)), default=0)


def _source(number: int, places: Sequence[Finding], before: Pixels, after: Pixels) -> int | None:
    """Which other place showed before what this one shows after."""
    box = around(places[number].boxes_after)
    for other, finding in enumerate(places):
        if other != number and finding.boxes_before and _same(box, around(finding.boxes_before), before, after):
            return other
    return None


def _same(box: Box, old: Box, before: Pixels, after: Pixels) -> bool:
    x, y, width, height = box
    new = after[y : y + height, x : x + width]
    there = before[old[1] : old[1] + height, old[0] : old[0] + width]
    if new.shape != there.shape or abs(old[3] - height) > 6:
        return False
    alike = (new == there).all(axis=2)
    varied = (new != new[0, 0]).any(axis=2)  # flat ground agrees anywhere
    return bool(alike.mean() >= SAME and varied.any() and alike[varied].mean() >= 0.9)


def _exchanged(
    findings: Sequence[Finding], places: Sequence[Finding], sources: dict[int, int], size: tuple[int, int]
) -> list[Finding]:
    taken = [places[number] for number in sources]
    boxes_before = tuple(box for finding in taken for box in finding.boxes_before)
    boxes_after = tuple(box for finding in taken for box in finding.boxes_after)
    swapped = Finding(
        kind="swapped",
        sentence=f"parts {place(around(boxes_before), size)} exchanged places",
        boxes_before=(around(boxes_before),),
        boxes_after=(around(boxes_after),),
        pixels=sum(finding.pixels for finding in taken),
    )
    return [swapped, *(finding for finding in findings if not any(finding is each for each in taken))]


def _flowed(
    findings: Sequence[Finding], places: Sequence[Finding], sources: dict[int, int], size: tuple[int, int]
) -> list[Finding]:
    """What moved on, and what was not found again or came from nowhere."""
    result = [finding for finding in findings if not any(finding is each for each in places)]
    kept = set(sources.values())
    for number, finding in enumerate(places):
        old_gone = finding.boxes_before and number not in kept
        new_came = finding.boxes_after and number not in sources
        if number in sources:
            old, new = around(places[sources[number]].boxes_before), around(finding.boxes_after)
            right, down = new[0] - old[0], new[1] - old[1]
            result.append(
                Finding(
                    kind="moved",
                    sentence=f"a part {place(old, size)} moved {distance(right, down)}",
                    boxes_before=((old[0], old[1], new[2], new[3]),),
                    boxes_after=(new,),
                    pixels=finding.pixels,
                    shift=(right, down),
                )
            )
            if old_gone:
                box = around(finding.boxes_before)
                result.append(
                    Finding(
                        kind="disappeared",
                        sentence=f"a part {place(box, size)} disappeared",
                        boxes_before=(box,),
                        pixels=finding.pixels,
                    )
                )
        elif old_gone or new_came:
            if number in kept and new_came:
                box = around(finding.boxes_after)
                finding = replace(
                    finding,
                    kind="appeared",
                    sentence=f"a part appeared {place(box, size)}",
                    boxes_before=(),
                    boxes_after=(box,),
                )
            result.append(finding)
    return result
