"""Two images in, a verdict and an account of what happened out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from spotchange.comparison.describe import describe
from spotchange.comparison.options import ComparisonOptions
from spotchange.comparison.photos.judging import SMALLEST, judge_photos
from spotchange.comparison.raster import Raster, read_rasters
from spotchange.comparison.result import Comparison, Finding
from spotchange.comparison.verdict import Verdict, judge

NAMED = 3  # findings the summary names


def compare(before: Any, after: Any, options: ComparisonOptions | None = None) -> Comparison:
    """Compare two images: paths, encoded bytes, Pillow images, arrays, `Raster`s or objects with `pixels`.

    Raises:
        ImageError: an image cannot be read; the line says which.
    """
    options = options or ComparisonOptions()
    first, second = read_rasters(before, after)
    notes = _profile_notes(first, second)
    sizes = {"size_before": first.size, "size_after": second.size}
    if options.scale and first.size != second.size:
        notes += (f"after was scaled from {second.width}x{second.height} to {first.width}x{first.height}",)
        second = _scaled(second, first.size)
    if options.preset == "photos" and min(*first.size, *second.size) < SMALLEST:
        notes += (f"less than {SMALLEST} pixels cannot be aligned, so every pixel was compared as it is",)
        options = replace(options, preset="exact")
    verdict = judge(first, second, options.tolerance, options.ignore)
    identical = verdict.identical and sizes["size_before"] == sizes["size_after"]
    findings: tuple[Finding, ...] = ()
    apart = False  # views that cannot be brought together are not called unchanged
    if options.preset == "photos" and not identical:
        photos = judge_photos(first.rgb, second.rgb, options.ignore)
        verdict = replace(verdict, counted=photos.mask, diff_pixels=int(np.count_nonzero(photos.mask)))
        findings, notes, apart = tuple(photos.findings), notes + photos.notes, not photos.aligned
    ratio = verdict.diff_pixels / max(1, verdict.counted.size)
    changed = apart or not (verdict.diff_pixels <= options.max_diff_pixels or ratio <= options.max_diff_ratio)
    if options.preset != "photos":
        changed = changed or first.size != second.size
        findings = describe(first, second, verdict, options) if changed and options.describe else ()
    return Comparison(
        preset=options.preset,
        identical=identical,
        changed=changed,
        diff_pixels=verdict.diff_pixels,
        diff_ratio=ratio,
        largest_difference=round(verdict.largest_difference, 6),
        summary=_summary(findings, changed=changed, verdict=verdict),
        findings=findings,
        notes=notes,
        mask=verdict.counted,
        **sizes,
    )


def _summary(findings: Sequence[Finding], *, changed: bool, verdict: Verdict) -> str:
    """At most three findings and how many more; without findings, the counts."""
    if verdict.identical:
        return "the pictures are identical"
    count = verdict.diff_pixels
    counted = f"{_pixels(count)} ({_share(count / verdict.counted.size)})"
    if not changed and findings:
        return "; ".join(["the content is the same", *(finding.sentence for finding in findings[:NAMED])])
    if not changed:
        if not count:
            beyond = "outside the ignored regions" if not verdict.differing.any() else "beyond the tolerance"
            return f"no pixel differs {beyond}"
        return f"no change: {counted} {'differs' if count == 1 else 'differ'}, within the tolerance"
    if not findings:
        return f"{counted} {'differs' if count == 1 else 'differ'}"
    named = [finding.sentence for finding in findings[:NAMED]]
    more = len(findings) - len(named)
    if more:
        named.append(f"and {more} more {'change' if more == 1 else 'changes'}")
    return "; ".join(named)


def _pixels(count: int) -> str:
    """A number of pixels in words."""
    return f"{count:,} pixel" + ("" if count == 1 else "s")


def _share(ratio: float) -> str:
    """A share as per cent, small ones not rounded to nothing."""
    percent = ratio * 100
    return f"{percent:.3g} %" if percent >= 0.01 else "less than 0.01 %"


def _profile_notes(before: Raster, after: Raster) -> tuple[str, ...]:
    if before.profile == after.profile:
        return ()
    return ("the colour profiles differ, so equal levels may be shown in different colours",)


def _scaled(image: Raster, size: tuple[int, int]) -> Raster:
    shrinks = image.width * image.height > size[0] * size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return Raster(cv2.resize(image.rgba, size, interpolation=how), image.profile)
