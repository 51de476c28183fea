"""Findings that say the same thing are said once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spotchange.comparison.kinds import KINDS
from spotchange.comparison.layout.positions import distance, place
from spotchange.comparison.layout.regions import around, overlap
from spotchange.comparison.result import Finding
from spotchange.results import Box

ROUNDING = 2  # pixels
NEAR = 28  # pixels between places of the same thing
_RANK = {kind: number for number, kind in enumerate(KINDS)}
_OVERALL = _RANK["inserted"]  # kinds before this one are about the whole image


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """What concerns the whole image first, then by size."""
    return sorted(findings, key=lambda finding: (min(_RANK[finding.kind], _OVERALL), -finding.pixels))


def joined_findings(findings: Sequence[Finding], size: tuple[int, int]) -> list[Finding]:
    """Join the same displacement, the same colours wherever they are, and the same kind side by side."""
    left = list(findings)
    done: list[Finding] = []
    while left:
        finding = left.pop(0)
        hit = next((n for n, other in enumerate(left) if _same(finding, other)), None)
        if hit is None:
            done.append(finding)
        else:
            left[hit] = _join(finding, left[hit], size)
    return _without_echoes(done)


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """A thing that was inserted and pushed the rest also appeared: once is enough."""
    pushing = [finding for finding in findings if finding.kind in ("inserted", "removed") and finding.shift]
    return [
        finding
        for finding in findings
        if finding in pushing
        or finding.kind not in ("inserted", "removed", "appeared", "disappeared")
        or not any(_same_place(finding, other) for other in pushing)
    ]


def _same_place(one: Finding, other: Finding) -> bool:
    """Whether two findings cover the same rectangles, but for the rounding of their edges."""
    mine, theirs = (one.boxes_before, one.boxes_after), (other.boxes_before, other.boxes_after)
    if [len(boxes) for boxes in mine] != [len(boxes) for boxes in theirs]:
        return False
    pairs = [(a, b) for ours, others in zip(mine, theirs, strict=True) for a, b in zip(ours, others, strict=True)]
    return all(abs(x - y) <= ROUNDING for a, b in pairs for x, y in zip(a, b, strict=True))


def _same(one: Finding, other: Finding) -> bool:
    if one.kind != other.kind:
        return False
    if one.kind == "moved":
        return one.shift == other.shift
    if one.kind == "recoloured":
        return one.colours == other.colours
    if one.kind in ("inserted", "removed"):
        return one.shift == other.shift and _near(one, other, margin=abs((one.shift or (0, 0))[1]) + 12)
    return _near(one, other, margin=NEAR)


def _near(one: Finding, other: Finding, *, margin: int) -> bool:
    return any(
        overlap(a, b, margin=margin)
        for mine, theirs in ((one.boxes_before, other.boxes_before), (one.boxes_after, other.boxes_after))
        for a in mine
        for b in theirs
    )


def _join(one: Finding, other: Finding, size: tuple[int, int]) -> Finding:
    larger = one if one.pixels >= other.pixels else other
    near = _near(one, other, margin=NEAR)
    befores, afters = (
        _boxes(one.boxes_before, other.boxes_before, near),
        _boxes(one.boxes_after, other.boxes_after, near),
    )
    sentence = larger.sentence
    parts = max(len(befores), len(afters))
    where = place(around(befores or afters), size)
    if larger.kind == "moved" and larger.shift and parts > 1 and ";" not in sentence:
        sentence = f"{parts} parts {where} moved {distance(*larger.shift)}"
    elif larger.kind == "recoloured" and larger.colours and parts > 1:
        sentence = f"{parts} places changed from {larger.colours[0]} to {larger.colours[1]}"
    return replace(
        larger, sentence=sentence, boxes_before=befores, boxes_after=afters, pixels=one.pixels + other.pixels
    )


def _boxes(mine: tuple[Box, ...], theirs: tuple[Box, ...], near: bool) -> tuple[Box, ...]:
    every = (*mine, *theirs)
    return (around(every),) if near and every else every
