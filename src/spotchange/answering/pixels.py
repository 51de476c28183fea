"""The exact comparison as an answerer: a verdict from every pixel, and what happened in words."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Heat
from spotchange.answering.pair import ImagePair, LazyImage
from spotchange.images import Pixels
from spotchange.results import CaptionResult, Region

if TYPE_CHECKING:
    from spotchange.comparison import Comparison, ComparisonOptions

HEAT_CELLS = 64  # along the longer side
FLAT_SHARE = 0.35  # of neighbouring pixels that are exactly equal: screenshots have more, photographs less
SAME_SHOT = 0.9  # of the pixels exactly the same in both images: no camera lies between them


@dataclass(frozen=True, kw_only=True)
class PixelAnswerer:
    """Answers any pair from its pixels alone, within stated tolerances."""

    options: ComparisonOptions | None = None
    """None: exact, or photos where both images look like photographs."""

    @property
    def card(self) -> AnswererCard:
        return AnswererCard(name="pixels", architecture="pixel comparison")

    @property
    def workers(self) -> int:
        return os.cpu_count() or 1

    def set_threads(self, count: int) -> None:
        import cv2

        cv2.setNumThreads(count)

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        """One answer per pair."""
        return [answer_from_pixels(pair, options, self.options) for pair in pairs]


def answer_from_pixels(
    pair: ImagePair, options: CaptionOptions, comparison_options: ComparisonOptions | None = None
) -> Answer:
    """What the pixels alone tell; `options.ignore` is added to the comparison's own."""
    from spotchange.comparison import ComparisonOptions, compare  # here: most answers of a model need no comparison

    started = time.perf_counter()
    chosen = comparison_options or ComparisonOptions(preset="photos" if is_photo(pair) else "exact")
    chosen = replace(chosen, ignore=(*chosen.ignore, *options.ignore))
    found = compare(pair.before, pair.after, chosen)
    result = result_of(found, seconds=round(time.perf_counter() - started, 4))
    return Answer(result=result, heat=heat_of(found), pair=pair)


def result_of(found: Comparison, *, seconds: float = 0.0) -> CaptionResult:
    """A comparison as the result that every answerer gives."""
    return CaptionResult(
        caption=found.summary,
        changed=found.changed,
        change_score=1.0 if found.changed else 0.0,
        change_type=found.change_type,
        regions=tuple(_regions(found)),
        source="pixels",
        warnings=found.notes,
        model="pixels",
        seconds=seconds,
        identical=found.identical,
        preset=found.preset,
        findings=found.findings,
        diff_pixels=found.diff_pixels,
        diff_ratio=found.diff_ratio,
        largest_difference=found.largest_difference,
    )


def answer_identical(pair: ImagePair) -> Answer:
    """The answer to two images with the same pixels."""
    result = CaptionResult(
        caption="the two pictures are identical",
        changed=False,
        change_score=0.0,
        change_type="none",
        source="pixels",
        identical=True,
        diff_pixels=0,
        diff_ratio=0.0,
        largest_difference=0.0,
    )
    return Answer(result=result, heat=np.zeros((2, 1, 1), np.float32), pair=pair)


def heat_of(found: Comparison) -> Heat:
    """The mask as heat (2, rows, columns): the same places in both images."""
    height, width = found.mask.shape
    scale = HEAT_CELLS / max(height, width, 1)
    rows, columns = (max(1, min(side, round(side * scale))) for side in (height, width))
    return np.stack([found.heat(rows, columns)] * 2)


def is_photo(pair: ImagePair) -> bool:
    """Whether both images look like photographs: sensor noise leaves few neighbours exactly equal."""
    return all(equal_neighbours(image) < FLAT_SHARE for image in (pair.before, pair.after))


def equal_neighbours(image: LazyImage) -> float:
    """Share of neighbouring pixels that are exactly equal."""
    pixels = image.pixels
    step = max(1, pixels.shape[0] // 256)  # some rows tell as much as all
    rows = pixels[::step]
    if rows.shape[1] < 2:
        return 1.0
    return _share_equal(rows[:, 1:], rows[:, :-1])


def equal_pixels(pair: ImagePair) -> float:
    """Share of pixels that are exactly the same in both images; none where they differ in size."""
    if pair.before.size != pair.after.size:
        return 0.0
    return _share_equal(pair.before.pixels, pair.after.pixels)


def _share_equal(one: Pixels, other: Pixels) -> float:
    """Share of pixels equal in all three channels; `all` along so short an axis takes seven times as long."""
    red, green, blue = np.moveaxis(one == other, -1, 0)
    return float((red & green & blue).mean())


def _regions(found: Comparison) -> list[Region]:
    """The findings' boxes; a change without one is marked by the bounds of all that differs."""
    regions: dict[tuple[str, tuple[int, int, int, int]], Region] = {}
    for finding in found.findings:
        for box in finding.boxes_before:
            regions.setdefault(("before", box), Region(image="before", box=box, score=1.0))
        for box in finding.boxes_after:
            regions.setdefault(("after", box), Region(image="after", box=box, score=1.0))
    if found.changed and not regions and found.mask.any():
        down, across = np.nonzero(found.mask)
        box = (int(across.min()), int(down.min()), int(np.ptp(across)) + 1, int(np.ptp(down)) + 1)
        return [Region(image="before", box=box, score=1.0), Region(image="after", box=box, score=1.0)]
    return list(regions.values())
