"""Rows that only one image has, or that stand for fewer or more rows of the other: inserted, removed, grown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.exchanges import exchanged
from spotchange.comparison.layout.gap import Gap
from spotchange.comparison.layout.positions import count, distance, place
from spotchange.comparison.layout.regions import Frame, bounds
from spotchange.comparison.layout.rows import frames_between, matching_blocks, row_keys
from spotchange.comparison.place.boxes import describe_box
from spotchange.comparison.place.classify import classify, likely, replaced
from spotchange.comparison.place.colours import most_common, pack, unpack
from spotchange.comparison.place.patches import Patch
from spotchange.comparison.place.textlike import looks_like_text
from spotchange.comparison.result import Finding

# What came or went and pushed the rest was inserted or removed.
_PUSHING = {("appeared", True): "inserted", ("disappeared", False): "removed"}
NARROWER = 0.8  # of the columns of a gap: a difference in fewer is aligned on its own
NARROWEST = 40  # pixels of a place that can hold something pushed aside and something that pushes
FEWEST_COLUMNS = 10  # with ink, that must have moved together
ROUNDING = 2  # rows: pages lie at fractions of a pixel, so parts of one push may differ by this


def in_view(frames: Sequence[Frame], before_height: int, after_height: int) -> list[Frame]:
    """Without rows that left or entered the view at the bottom because those above moved: no change of their own."""
    if before_height != after_height:
        return list(frames)
    kept = []
    for frame in frames:
        last = frame.before_bottom == before_height and frame.after_bottom == after_height
        if last and frame.offset and (frame.after_rows - frame.before_rows) * frame.offset < 0:
            rows = min(frame.before_rows, frame.after_rows)
            frame = replace(frame, before_bottom=frame.before_top + rows, after_bottom=frame.after_top + rows)
            if not rows:
                continue
        kept.append(frame)
    return kept


def describe_gaps(gaps: Sequence[Gap], size: tuple[int, int]) -> list[Finding]:
    """One finding for each push: what caused it is said, what merely follows it is not."""
    findings, left = exchanged(gaps, size)
    pushes = [gap.growth for gap in left]
    for growth in sorted(set(pushes), key=lambda each: -abs(each)):
        same = [gap for gap in left if abs(gap.growth - growth) <= ROUNDING and gap.growth * growth > 0]
        left = [gap for gap in left if gap not in same]
        if not same or (abs(growth) <= ROUNDING and findings):
            continue
        causes = [
            gap for gap in same if gap.content(int(growth < 0)) is None and gap.content(int(growth > 0)) is not None
        ]
        causes = causes or [gap for gap in same if gap.content(0) is not None] or same[:1]
        if all(gap.content(0) is None and gap.content(1) is None for gap in causes) and -growth in pushes:
            continue  # space that makes up for a push elsewhere
        findings += [finding for gap in _side_by_side(causes) for finding in describe_gap(gap, size)]
    return findings


def _side_by_side(gaps: Sequence[Gap]) -> list[Gap]:
    """The largest, and with it those of other columns at its height."""
    first = max(gaps, key=lambda gap: gap.frame.right - gap.frame.left)
    reach = abs(first.growth) + 12
    return [gap for gap in gaps if gap is first or abs(gap.frame.after_top - first.frame.after_top) <= reach]


def describe_gap(gap: Gap, size: tuple[int, int]) -> list[Finding]:
    """What was inserted, removed or grown, and how far the rest moved."""
    old, new = gap.content(0), gap.content(1)
    if old is None and new is None:
        return [_spacing(gap, size)]
    side = int(gap.growth > 0)
    if (old if side else new) is None:
        box = gap.outward(gap.differing(side))
        kind, extent = "inserted" if side else "removed", "width" if gap.across else "height"
        what = f"{_thing(gap, side)} of {count(abs(gap.growth))} {extent}"
        finding = Finding(
            kind=kind,
            sentence=f"{what} was {kind} {place(box, size)}{_push(gap)}",
            boxes_before=() if side else (box,),
            boxes_after=(box,) if side else (),
            pixels=box[2] * box[3],
            shift=_shift(gap),
        )
        return [finding]
    patch = _padded(gap)
    inner = _narrowed(gap, patch)
    if inner:
        return [finding for each in inner for finding in describe_gap(each, size)]
    boxed = (
        () if gap.across else describe_box(gap.before, gap.after, patch.box_before, patch.box_after, size, alone=False)
    )
    first, *others = boxed or classify(patch, size) or [likely(patch, size) or replaced(patch, size)]
    kind = _PUSHING.get((first.kind, gap.growth > 0), first.kind)
    return [replace(first, kind=kind, sentence=first.sentence + _push(gap)), *others]


def _narrowed(gap: Gap, patch: Patch) -> list[Gap]:
    """The gap within the columns that differ, if rows can be aligned there: one card of several in a row."""
    x, _, width, _ = gap.outward(patch.box_before)
    if width >= NARROWER * (gap.frame.right - gap.frame.left):
        return []
    columns = slice(x - gap.frame.left, x - gap.frame.left + width)
    one, other = (words[:, columns] for words in gap.words)
    frames = [
        Frame(
            x,
            x + width,
            frame.before_top + gap.frame.before_top,
            frame.before_bottom + gap.frame.before_top,
            frame.after_top + gap.frame.after_top,
            frame.after_bottom + gap.frame.after_top,
        )
        for frame in frames_between(matching_blocks(row_keys(one), row_keys(other)), 0, width, len(one), len(other))
    ]
    grown = [frame for frame in frames if (frame.after_rows - frame.before_rows) * gap.growth > 0]
    if len(frames) < 2 or len(grown) != 1 or grown[0].after_rows - grown[0].before_rows != gap.growth:
        return []
    return [replace(gap, frame=grown[0])]


def _shift(gap: Gap) -> tuple[int, int]:
    return (gap.growth, 0) if gap.across else (0, gap.growth)


def _push(gap: Gap) -> str:
    where = "to the right" if gap.across else "below"
    return f"; everything {where} moved {distance(*_shift(gap))}"


def _spacing(gap: Gap, size: tuple[int, int]) -> Finding:
    """Only ground was added or taken: what follows moved."""
    frame = gap.frame
    end = size[0] if gap.across else size[1]
    box = (frame.left, frame.before_bottom, frame.right - frame.left, max(1, end - frame.before_bottom))
    after = (frame.left, frame.after_bottom, frame.right - frame.left, max(1, end - frame.after_bottom))
    where = place(
        gap.outward((frame.left, frame.before_top, frame.right - frame.left, max(1, frame.before_rows))), size
    )
    more = "more" if gap.growth > 0 else "less"
    return Finding(
        kind="moved",
        sentence=f"there is {count(abs(gap.growth))} {more} space {where}{_push(gap)}",
        boxes_before=(gap.outward(box),),
        boxes_after=(gap.outward(after),),
        shift=_shift(gap),
    )


def _thing(gap: Gap, side: int) -> str:
    ink = gap.words[side] != gap.ground
    if looks_like_text(ink):
        return "text"
    share = most_common(gap.words[side][ink])[1]
    return "a row" if share < 0.4 else "a block"


def _padded(gap: Gap) -> Patch:
    """Both sides on the same ground and of the same height, so that they can be compared from the top."""
    rows, columns = max(gap.frame.before_rows, gap.frame.after_rows), gap.frame.right - gap.frame.left
    rim = 1
    ground = most_common(gap.ground)[0]
    cuts = []
    for image, top, count_rows in (
        (gap.before, gap.frame.before_top, gap.frame.before_rows),
        (gap.after, gap.frame.after_top, gap.frame.after_rows),
    ):
        canvas = np.empty((rows + 2 * rim, columns + 2 * rim, 3), np.uint8)
        canvas[:] = unpack(ground)
        part = image[top : top + count_rows, gap.frame.left : gap.frame.right].copy()
        part[pack(part) == gap.ground] = unpack(ground)  # panels side by side become one ground
        canvas[rim : rim + count_rows, rim : rim + columns] = part
        cuts.append(canvas)
    box = bounds((cuts[0] != cuts[1]).any(axis=2)) or (rim, rim, columns, rows)
    x, y, width, height = box
    left, top = gap.frame.left + x - rim, y - rim
    window = (slice(y - rim, y + height + rim), slice(x - rim, x + width + rim))
    before, after = (cut[window].transpose(1, 0, 2) if gap.across else cut[window] for cut in cuts)
    return Patch(
        box_before=gap.outward(
            (left, gap.frame.before_top + top, width, min(height, max(1, gap.frame.before_rows - top)))
        ),
        box_after=gap.outward(
            (left, gap.frame.after_top + top, width, min(height, max(1, gap.frame.after_rows - top)))
        ),
        before=before,
        after=after,
        rim=gap.outward((rim, rim, width, height)),
    )


def describe_across(
    before: npt.NDArray[np.uint8], after: npt.NDArray[np.uint8], patch: Patch, size: tuple[int, int]
) -> list[Finding]:
    """Findings where columns of the place moved to the side together, otherwise none: rows, turned by a quarter."""
    x, y, width, height = patch.box_before
    if width < NARROWEST or patch.box_before != patch.box_after or patch.ground is None:
        return []
    one, other = (pack(pixels[y : y + height, x : x + width]).T for pixels in (before, after))
    keys = row_keys(one), row_keys(other)
    blocks = matching_blocks(*keys)
    inked = (one != patch.ground).any(axis=1)
    moved = sum(
        int(np.count_nonzero(inked[start : start + columns]))
        for start, new_start, columns in blocks
        if new_start != start
    )
    if moved < FEWEST_COLUMNS or moved < 0.2 * np.count_nonzero(inked):
        return []
    turned = before.transpose(1, 0, 2), after.transpose(1, 0, 2)
    gaps = []
    at_before, at_after = 0, 0
    for start, new_start, columns in [*blocks, (width, width, 0)]:
        if start - at_before != new_start - at_after:
            frame = Frame(y, y + height, x + at_before, x + start, x + at_after, x + new_start)
            gaps.append(Gap(frame, *turned, across=True))
        at_before, at_after = start + columns, new_start + columns
    return describe_gaps(gaps, size)
