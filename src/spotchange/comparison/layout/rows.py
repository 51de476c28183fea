"""Which rows of before are which rows of after, as a text diff aligns lines (patience diff, Cohen 2008).

Rows that occur once in each image are anchors; the longest chain of anchors in common order is kept and grown
over equal neighbours. What lies between is inserted, removed or changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.regions import Frame, column_bands
from spotchange.comparison.result import Mask

Words = npt.NDArray[Any]  # (height, width), one integer a pixel
Block = tuple[int, int, int]  # first row in before, first row in after, rows

_MULTIPLIERS = np.random.default_rng(17).integers(1, 2**63 - 1, 1 << 14, dtype=np.uint64) | np.uint64(1)
BY_CHANCE = 40  # rows: fewer than this between two parts that moved alike moved with them
FEWEST_ANCHORS = 4  # rows that must have moved together before anything is called pushed


def align(first: Words, second: Words, mask: Mask) -> list[Frame] | None:
    """Frames that cover all rows with differences, or None if no rows moved.

    All columns that differ are aligned together; if that leaves much unexplained, bands of columns
    apart from each other are aligned alone: a sidebar stays while the text beside it moves.
    """
    width = min(first.shape[1], second.shape[1])
    bands = column_bands(mask[:, :width])
    if not bands:
        return None
    whole = [(bands[0][0], bands[-1][1])]
    best, least = None, _unexplained(_still(whole, first, second), first, second)
    # A line or two that moved between parts that stayed may match by chance: it has to explain more.
    for by_chance, needed in ((BY_CHANCE, 0.75), (FEWEST_ANCHORS, 0.6)):
        for choice in (whole, bands) if 1 < len(bands) <= 12 else (whole,):
            frames = [frame for left, right in choice for frame in _align_band(first, second, left, right, by_chance)]
            if all(frame.before_rows == frame.after_rows and not frame.offset for frame in frames):
                continue
            unexplained = _unexplained(frames, first, second)
            if unexplained < needed * least:
                best, least = frames, unexplained
        if best is not None:
            break
    return best


def _still(bands: Sequence[tuple[int, int]], first: Words, second: Words) -> list[Frame]:
    return [Frame(left, right, 0, first.shape[0], 0, second.shape[0]) for left, right in bands]


def _unexplained(frames: Sequence[Frame], first: Words, second: Words) -> float:
    """Pixels that differ within their frames, and rows that only one side has."""
    total = 0.0
    for frame in frames:
        rows = min(frame.before_rows, frame.after_rows)
        columns = slice(frame.left, frame.right)
        one = first[frame.before_top : frame.before_top + rows, columns]
        other = second[frame.after_top : frame.after_top + rows, columns]
        total += np.count_nonzero(one != other)
        only = first[frame.before_top + rows : frame.before_bottom, columns]
        if frame.after_rows > frame.before_rows:
            only = second[frame.after_top + rows : frame.after_bottom, columns]
        # What came or went costs by what is on it, not by its room: flat rows tell nothing.
        total += 0.5 * np.count_nonzero(only[:, 1:] != only[:, :-1]) + 0.02 * only.size
    return total


def _align_band(first: Words, second: Words, left: int, right: int, by_chance: int) -> list[Frame]:
    one, other = row_keys(first[:, left:right]), row_keys(second[:, left:right])
    return frames_between(matching_blocks(one, other, by_chance), left, right, len(one), len(other))


def frames_between(blocks: Sequence[Block], left: int, right: int, before_rows: int, after_rows: int) -> list[Frame]:
    """Frames for the blocks and for what lies between them, over all rows."""
    frames, at_before, at_after = [], 0, 0
    for before, after, rows in [*blocks, (before_rows, after_rows, 0)]:
        if before > at_before or after > at_after:
            frames.append(Frame(left, right, at_before, before, at_after, after))
        if rows:
            frames.append(Frame(left, right, before, before + rows, after, after + rows))
        at_before, at_after = before + rows, after + rows
    return frames


def row_keys(words: Words) -> npt.NDArray[np.uint64]:
    """One number a row, equal for equal rows."""
    multipliers = np.resize(_MULTIPLIERS, words.shape[1])
    result: npt.NDArray[np.uint64] = (words.astype(np.uint64) * multipliers).sum(axis=1, dtype=np.uint64)
    return result


def matching_blocks(
    one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64], by_chance: int = BY_CHANCE
) -> list[Block]:
    """Runs of equal rows in common order: the equal head, then from anchors, the equal tail.

    `by_chance`: rows that are no evidence of having moved, between parts that moved alike.
    """
    shorter = min(len(one), len(other))
    different = np.flatnonzero(one[:shorter] != other[:shorter])
    head = int(different[0]) if len(different) else shorter
    different = np.flatnonzero(one[::-1][: shorter - head] != other[::-1][: shorter - head])
    tail = int(different[0]) if len(different) else shorter - head
    inner_one, inner_other = one[head : len(one) - tail], other[head : len(other) - tail]
    blocks = [(before + head, after + head, rows) for before, after, rows in _inner_blocks(inner_one, inner_other)]
    if blocks and _offset(blocks[-1]) != len(other) - len(one) and not _has_single(one[len(one) - tail :], one):
        # Empty rows at the foot of a view say nothing once what is above them has moved: the last block runs on.
        before, after, rows = blocks[-1]
        while before + rows < len(one) and after + rows < len(other) and one[before + rows] == other[after + rows]:
            rows += 1
        blocks[-1], tail = (before, after, rows), 0
    ends = [(0, 0, head), *blocks, (len(one) - tail, len(other) - tail, tail)]
    return _without_specks([block for block in ends if block[2]], by_chance)


def _offset(block: Block) -> int:
    return block[1] - block[0]


def _has_single(part: npt.NDArray[np.uint64], whole: npt.NDArray[np.uint64]) -> bool:
    """Whether a part holds a row that the whole holds once."""
    values, counts = np.unique(whole, return_counts=True)
    return bool(np.isin(part, values[counts == 1]).any())


def _inner_blocks(one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> list[Block]:
    blocks: list[Block] = []
    at_before, at_after = 0, 0
    chain = _longest_chain(_anchors(one, other))
    for number, (before, after) in enumerate(chain):
        if before < at_before or after < at_after:
            continue
        back = 0
        while (
            before - back > at_before and after - back > at_after and one[before - back - 1] == other[after - back - 1]
        ):
            back += 1
        following = chain[number + 1] if number + 1 < len(chain) else (len(one), len(other))
        rows = 1
        while (
            before + rows < min(len(one), following[0] + 1)
            and after + rows < min(len(other), following[1] + 1)
            and one[before + rows] == other[after + rows]
        ):
            rows += 1
        start = (before - back, after - back)
        rows += back
        if blocks and (blocks[-1][0] + blocks[-1][2], blocks[-1][1] + blocks[-1][2]) == start:
            blocks[-1] = (blocks[-1][0], blocks[-1][1], blocks[-1][2] + rows)
        else:
            blocks.append((*start, rows))
        at_before, at_after = start[0] + rows, start[1] + rows
    return blocks


def _anchors(one: npt.NDArray[np.uint64], other: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
    """Rows that occur exactly once in each, in the order of before."""
    keys_one, at_one, count_one = np.unique(one, return_index=True, return_counts=True)
    keys_other, at_other, count_other = np.unique(other, return_index=True, return_counts=True)
    single_one, single_other = count_one == 1, count_other == 1
    _, in_one, in_other = np.intersect1d(
        keys_one[single_one], keys_other[single_other], assume_unique=True, return_indices=True
    )
    pairs = np.stack([at_one[single_one][in_one], at_other[single_other][in_other]], axis=1)
    return [(int(before), int(after)) for before, after in pairs[pairs[:, 0].argsort()]]


def _longest_chain(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence that also rises in after."""
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for number, (_, after) in enumerate(pairs):
        place = bisect_left(ends, after)
        previous.append(last[place - 1] if place else -1)
        if place == len(ends):
            ends.append(after)
            last.append(number)
        else:
            ends[place], last[place] = after, number
    chain = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _without_specks(blocks: list[Block], by_chance: int) -> list[Block]:
    """Rows that match by chance are no evidence: few of them, displaced against what lies above and below."""
    kept = [
        block
        for number, block in enumerate(blocks)
        if block[2] >= FEWEST_ANCHORS
        or _offset(block)
        in (0, *(_offset(other) for other in blocks[max(0, number - 1) : number + 2] if other != block))
    ]
    while True:
        runs = _runs(kept)
        for number in range(1, len(runs) - 1):
            above, run, below = runs[number - 1 : number + 2]
            rows = sum(block[2] for block in run)
            if _offset(above[0]) == _offset(below[0]) and rows < min(
                by_chance, sum(block[2] for block in above + below)
            ):
                kept = [block for block in kept if block not in run]
                break
        else:
            return kept


def _runs(blocks: list[Block]) -> list[list[Block]]:
    """Neighbouring blocks of one displacement."""
    runs: list[list[Block]] = []
    for block in blocks:
        if runs and _offset(runs[-1][0]) == _offset(block):
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs
