"""Two pictures in, a verdict and an account of what happened out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from spotchange.comparison.describe import describe
from spotchange.comparison.options import ComparisonOptions
from spotchange.comparison.photos.judging import judge_photos
from spotchange.comparison.picture import Picture, read_pictures
from spotchange.comparison.result import Comparison, Finding
from spotchange.comparison.sentences import summary_of
from spotchange.comparison.verdict import judge


def compare(before: Any, after: Any, options: ComparisonOptions | None = None) -> Comparison:
    """Compare two pictures: paths, encoded bytes, Pillow pictures, arrays, `Picture`s or objects with `pixels`.

    Raises:
        ImageError: a picture cannot be read; the line says which.
    """
    options = options or ComparisonOptions()
    first, second = read_pictures(before, after)
    notes = _profile_notes(first, second)
    sizes = {"size_before": first.size, "size_after": second.size}
    if options.scale and first.size != second.size:
        notes += (f"after was scaled from {second.width}x{second.height} to {first.width}x{first.height}",)
        second = _scaled(second, first.size)
    verdict = judge(first, second, options.tolerance, options.ignore)
    identical = verdict.identical and sizes["size_before"] == sizes["size_after"]
    findings: tuple[Finding, ...] = ()
    if options.preset == "photos" and not identical:
        photos = judge_photos(first.rgb, second.rgb, options.ignore)
        verdict = replace(verdict, counted=photos.mask, diff_pixels=int(np.count_nonzero(photos.mask)))
        findings, notes = tuple(photos.findings), notes + photos.notes
    ratio = verdict.diff_pixels / max(1, verdict.counted.size)
    changed = not (verdict.diff_pixels <= options.max_diff_pixels or ratio <= options.max_diff_ratio)
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
        summary=summary_of(findings, changed=changed, verdict=verdict),
        findings=findings,
        notes=notes,
        mask=verdict.counted,
        **sizes,
    )


def _profile_notes(before: Picture, after: Picture) -> tuple[str, ...]:
    if before.profile == after.profile:
        return ()
    return ("the colour profiles differ, so equal levels may be shown in different colours",)


def _scaled(picture: Picture, size: tuple[int, int]) -> Picture:
    shrinks = picture.width * picture.height > size[0] * size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    return Picture(cv2.resize(picture.rgba, size, interpolation=how), picture.profile)
