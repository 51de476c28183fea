"""Everyday photos without a trained pair model: the aligned comparison decides, pretrained recognisers name.

Whether, where and how much changed comes from the pixels once camera and light are taken out. What it is that changed
comes from a detector and a classifier that look at the changed places in both images, said as specifically as the
evidence allows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from PIL import Image

from spotchange.answering.ignore import without_ignored
from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Heat
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import HEAT_CELLS, SAME_SHOT, answer_from_pixels, answer_identical, equal_pixels
from spotchange.comparison import ComparisonOptions
from spotchange.comparison.photos.judging import SMALLEST, PhotoVerdict, judge_photos
from spotchange.everyday.kinds import OBJECT_KINDS, WHOLE_KINDS
from spotchange.everyday.language.telling import told
from spotchange.everyday.language.wording import FRAMES, stated
from spotchange.everyday.recognition.account import Account, SeenChange
from spotchange.everyday.recognition.recognisers import Recognisers
from spotchange.everyday.recognition.signs import Signs, whole_signs
from spotchange.everyday.recognition.whole import whole_change
from spotchange.results import Box, CaptionResult, Region

SOURCE = "recognition"
NAME = "everyday"


class PhotoAnswerer:
    """Answers pairs of photos. The recognisers are loaded when the first changed pair comes."""

    def __init__(self, recognisers: Recognisers) -> None:
        self._recognisers = recognisers

    @property
    def card(self) -> AnswererCard:
        return AnswererCard(
            name=NAME,
            architecture="aligned comparison, SSDLite and EfficientNet-lite0",
            change_types=("none", *OBJECT_KINDS, *WHOLE_KINDS),
        )

    @property
    def workers(self) -> int:
        return os.cpu_count() or 1

    def set_threads(self, count: int) -> None:
        cv2.setNumThreads(count)

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer]:
        """One answer per pair."""
        return [self._answer(pair, options) for pair in pairs]

    def _answer(self, pair: ImagePair, options: CaptionOptions) -> Answer:
        started = time.perf_counter()
        if without_ignored(pair, options.ignore).identical:
            answer = answer_identical(pair)
            return replace(answer, result=replace(answer.result, model=NAME))
        if min(*pair.before.size, *pair.after.size) < SMALLEST:
            return answer_from_pixels(pair, options, ComparisonOptions(preset="exact"))
        verdict = judge_photos(pair.before.pixels, pair.after.pixels, options.ignore)
        signs = whole_signs(pair.before.pixels, pair.after.pixels, verdict)
        whole = whole_change(signs, verdict)
        if whole is not None:
            result = _result(stated(whole), whole, ())
        elif verdict.changed:
            changes = self._changes(pair, verdict, signs)
            caption = told(changes, pair.before.size)
            kind = changes[0].kind if changes else None
            result = _result(caption, kind, _regions(changes, verdict, pair.before.size))
        elif equal_pixels(pair) >= SAME_SHOT or not verdict.aligned:
            # No camera lies between images that agree to the last bit: what differs, however little, was done. And
            # views that cannot be brought together are not called unchanged.
            return answer_from_pixels(pair, options, ComparisonOptions(preset="exact"))
        else:
            # How it was photographed is no change of what is seen, but worth a word.
            how = [each.sentence for each in verdict.findings]
            result = _result("; ".join([FRAMES["none"][0], *how]), "none", ())
        pixels = int(np.count_nonzero(verdict.mask))
        result = replace(
            result,
            warnings=verdict.notes,
            seconds=round(time.perf_counter() - started, 4),
            preset="photos",
            findings=tuple(verdict.findings),
            diff_pixels=pixels,
            diff_ratio=pixels / max(1, verdict.mask.size),
        )
        return Answer(result=result, heat=heat_of(verdict), pair=pair)

    def _changes(self, pair: ImagePair, verdict: PhotoVerdict, signs: Signs) -> list[SeenChange]:
        after = Image.fromarray(verdict.after)
        return Account(pair.before.pil, after, verdict.mask, verdict.findings, self._recognisers, signs).changes()


def _result(caption: str, kind: str | None, regions: tuple[Region, ...]) -> CaptionResult:
    changed = kind != "none"
    return CaptionResult(
        caption=caption,
        changed=changed,
        change_score=1.0 if changed else 0.0,
        change_type=kind,
        regions=regions,
        source=SOURCE,
        model=NAME,
    )


def heat_of(verdict: PhotoVerdict) -> Heat:
    """Both images' heat (2, rows, columns): highest in the middle of the largest changed place."""
    height, width = verdict.mask.shape
    scale = HEAT_CELLS / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    share = cv2.resize(verdict.mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    spread = cv2.GaussianBlur(share, (0, 0), 2.5, borderType=cv2.BORDER_CONSTANT)
    peak = float(spread.max())
    heat = np.where(share > 0, 0.35 + 0.65 * spread / peak, 0) if peak > 0 else np.zeros_like(share)
    return np.stack([heat.astype(np.float32)] * 2)


def _regions(changes: Sequence[SeenChange], verdict: PhotoVerdict, size: tuple[int, int]) -> tuple[Region, ...]:
    """The places of what is told, else all that the comparison found."""
    found = []
    for change in changes:
        for image, corners in (("before", change.before), ("after", change.after)):
            if corners is not None:
                left, top, right, bottom = (round(float(each)) for each in corners * np.array(size * 2))
                box: Box = (left, top, max(1, right - left), max(1, bottom - top))
                found.append(Region(image=image, box=box, score=1.0))  # type: ignore[arg-type]
    if not found:
        for finding in verdict.findings:
            found += [Region(image="before", box=box, score=1.0) for box in finding.boxes_before]
            found += [Region(image="after", box=box, score=1.0) for box in finding.boxes_after]
    return tuple(found)
