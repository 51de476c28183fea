"""What happened between two images of which the verdict says that they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spotchange.comparison.layout.exchanges import exchanged_findings, found_again
from spotchange.comparison.layout.flow import describe_flow
from spotchange.comparison.layout.gap import Gap
from spotchange.comparison.layout.gaps import ROUNDING, describe_across, describe_gaps, in_view
from spotchange.comparison.layout.grouping import joined_findings, ordered
from spotchange.comparison.layout.positions import place
from spotchange.comparison.layout.rearranged import rearranged
from spotchange.comparison.layout.regions import Frame, around, bounds, common, cut, groups, lines_joined, moved_by
from spotchange.comparison.layout.rows import align
from spotchange.comparison.options import ComparisonOptions
from spotchange.comparison.place.boxes import describe_box
from spotchange.comparison.place.classify import account, likely, replaced
from spotchange.comparison.place.parts import whole_lines
from spotchange.comparison.place.patches import Patch, patch_at
from spotchange.comparison.place.reading import read_findings
from spotchange.comparison.raster import Raster
from spotchange.comparison.result import Finding
from spotchange.comparison.verdict import Verdict
from spotchange.comparison.whole.transforms import describe_frame, describe_size, describe_whole, everything
from spotchange.results import Box

NEARLY_ALL = 0.6  # of the pixels must differ before everything can
TRIFLE, UNSEEN_LEVELS = 4, 3  # pixels, and levels of their channels
MOST_REGIONS = 200  # beyond this many separate places, listing them helps nobody


@dataclass(frozen=True, eq=False)
class Scene:
    """Both images as a person sees them, the ignored rectangles made equal."""

    before: npt.NDArray[np.uint8]
    after: npt.NDArray[np.uint8]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of before."""
        return self.before.shape[1], self.before.shape[0]


def describe(before: Raster, after: Raster, verdict: Verdict, options: ComparisonOptions) -> tuple[Finding, ...]:
    """Findings, the most important first, none of them twice."""
    scene = _scene(before, after, options)
    findings = describe_size(scene.before, scene.after)
    whole = describe_frame(scene.before, scene.after, verdict.differing)
    frames = None if whole else align(before.words(), after.words(), verdict.differing)
    if not whole and frames is None and not findings:
        whole = _describe_all(scene, verdict)
    if whole:
        return (*findings, *whole)
    flowed: list[Finding] = []
    if frames is None and before.size == after.size:
        flowed = describe_flow(scene.before, scene.after, lines_joined(groups(verdict.differing)), scene.size)
    height, width = min(before.height, after.height), min(before.width, after.width)
    still = [Frame(0, width, 0, height, 0, height)]
    frames = still if frames is None else in_view(frames, before.height, after.height)
    local = flowed or _describe_frames(scene, frames, verdict)
    local = found_again(local, scene.before, scene.after, scene.size)
    local = exchanged_findings(local, scene.before, scene.after, scene.size)
    local = rearranged(local, scene.before, scene.after, scene.size)
    found = ordered([*findings, *joined_findings(local, scene.size)])
    found = found or _somewhere(verdict, scene.size)
    read = read_findings(found, scene.before, scene.after, wanted=options.read_text)
    seen = [each for each in read if len(read) == 1 or not (_painted_again(each) or _trifling(each, scene))]
    seen = seen or read
    return tuple(finding if finding in findings else _within_difference(finding, verdict) for finding in seen)


def _within_difference(finding: Finding, verdict: Verdict) -> Finding:
    """The finding with its rectangles cut to where the images differ inside them."""
    limits: list[Box] = []
    for box in (*finding.boxes_before, *finding.boxes_after):
        differing = bounds(cut(verdict.differing, box))  # type: ignore[arg-type]
        if differing is not None:
            limits.append(moved_by(differing, max(0, box[0]), max(0, box[1])))
    if not limits:
        return finding
    outer = around(limits)
    befores, afters = (
        tuple(common(box, outer) or box for box in boxes) for boxes in (finding.boxes_before, finding.boxes_after)
    )
    return replace(finding, boxes_before=befores, boxes_after=afters)


def _somewhere(verdict: Verdict, size: tuple[int, int]) -> list[Finding]:
    """What is said where every difference passes for a trifle of its own: there is one all the same."""
    box = bounds(verdict.counted)
    if box is None:
        return []
    sentence = f"slight differences {place(box, size)}"
    finding = Finding(
        kind="noise", sentence=sentence, boxes_before=(box,), boxes_after=(box,), pixels=verdict.diff_pixels
    )
    return [finding]


def _painted_again(finding: Finding) -> bool:
    """Text that was pushed and reads the same only lies at another fraction of a pixel."""
    tops = [around(boxes)[1] for boxes in (finding.boxes_before, finding.boxes_after) if boxes]
    return finding.kind == "restyled" and len(tops) == 2 and abs(tops[0] - tops[1]) > ROUNDING


def _trifling(finding: Finding, scene: Scene) -> bool:
    """A few pixels that differ by a level or two beside a change that is seen: a corner smoothed anew."""
    if finding.pixels > TRIFLE or finding.shift:
        return False
    boxes = (*finding.boxes_before, *finding.boxes_after)
    parts = [(cut(scene.before, box), cut(scene.after, box)) for box in boxes]
    if any(one.shape != other.shape for one, other in parts):
        return False  # a box at the end of an image that the other has not
    levels = [int(np.abs(one.astype(np.int16) - other.astype(np.int16)).max(initial=0)) for one, other in parts]
    return max(levels, default=UNSEEN_LEVELS + 1) <= UNSEEN_LEVELS


def _describe_all(scene: Scene, verdict: Verdict) -> list[Finding]:
    whole = describe_whole(scene.before, scene.after, verdict.differing)
    if not whole and verdict.diff_pixels > NEARLY_ALL * verdict.counted.size:
        different = everything(scene.before, scene.after)
        return [different] if different else []
    return whole


def _scene(before: Raster, after: Raster, options: ComparisonOptions) -> Scene:
    first, second = before.rgb, after.rgb
    if options.ignore:
        first, second = first.copy(), second.copy()
        for x, y, width, height in options.ignore:
            for pixels in (first, second):
                pixels[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)] = 128
    return Scene(first, second)


def _describe_frames(scene: Scene, frames: list[Frame], verdict: Verdict) -> list[Finding]:
    findings: list[Finding] = []
    gaps: list[Gap] = []
    pushed = any(abs(frame.after_rows - frame.before_rows) > ROUNDING for frame in frames)
    for frame in frames:
        if frame.before_rows != frame.after_rows:
            gaps.append(Gap(frame, scene.before, scene.after))
        else:
            findings += _describe_frame(scene, frame, verdict, pushed=pushed)
    return [*findings, *describe_gaps(gaps, scene.size)]


def _describe_frame(scene: Scene, frame: Frame, verdict: Verdict, *, pushed: bool) -> list[Finding]:
    """Places that differ between rows that stand for each other."""
    columns = slice(frame.left, frame.right)
    if frame.offset == 0:
        mask = verdict.differing[frame.before_top : frame.before_bottom, columns]
    else:
        one = scene.before[frame.before_top : frame.before_bottom, columns]
        mask = (one != scene.after[frame.after_top : frame.after_bottom, columns]).any(axis=2)
        # What is the same in place stayed while the rest moved past it: a bar fixed to the window, a float.
        mask &= (
            verdict.differing[frame.before_top : frame.before_bottom, columns]
            | verdict.differing[frame.after_top : frame.after_bottom, columns]
        )
    boxes = groups(mask)
    if frame.offset == 0 and verdict.diff_pixels < np.count_nonzero(verdict.differing):
        counted = verdict.counted[frame.before_top : frame.before_bottom, columns]
        boxes = [(x, y, w, h) for x, y, w, h in boxes if counted[y : y + h, x : x + w].any()]
    boxes = sorted(lines_joined(boxes), key=lambda box: -box[2] * box[3])[:MOST_REGIONS]
    findings: list[Finding] = []
    explained: list[Box] = []
    for x, y, width, height in boxes:
        box = (x + frame.left, y + frame.before_top, width, height)
        if any(common(box, each) == box for each in explained):
            continue  # words that the change of their line pushed aside
        patch = patch_at(scene.before, scene.after, box, frame.offset)
        if pushed and frame.offset and (patch.slight or patch.repainted or not _differs(verdict, patch.box_after)):
            continue  # painted again at another fraction of a pixel, or not pushed with the rest
        found, told = _describe_patch(scene, patch)
        explained.append(told)
        if pushed and frame.offset:
            found = [each for each in found if not each.shift or max(map(abs, each.shift)) > ROUNDING]
        findings += found
    return findings


def _differs(verdict: Verdict, box: Box) -> bool:
    x, y, width, height = box
    return bool(verdict.differing[y : y + height, x : x + width].any())


def _describe_patch(scene: Scene, patch: Patch) -> tuple[list[Finding], Box]:
    """What happened at a place, and the rectangle in which that explains all that differs."""
    size = scene.size
    found, told = describe_box(scene.before, scene.after, patch.box_before, patch.box_after, size), patch.box_before
    if not found:
        found, told = account(patch, size, lines=whole_lines(scene.before, scene.after, patch))
    found = found or describe_across(scene.before, scene.after, patch, size)
    return found or [likely(patch, size) or replaced(patch, size)], told
