"""Everyday photos: the aligned comparison and a trained model decide, pretrained recognisers name.

Where and how much changed comes from the pixels once camera and light are taken out; which kind of change it is, and
whether what the pixels show is one at all, from the model; what it is that changed from a detector and the
model's second look at the changed places in both images, said as specifically as the evidence allows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cv2
import numpy as np
from PIL import Image

from spotchange.answering.ignore import without_ignored
from spotchange.answering.interface import Answer, AnswererCard, CaptionOptions, Heat
from spotchange.answering.pair import ImagePair
from spotchange.answering.photo_model import PhotoView
from spotchange.answering.pixels import HEAT_CELLS, SAME_SHOT, answer_from_pixels, answer_identical, equal_pixels
from spotchange.answering.regions import boxes_of
from spotchange.comparison import ComparisonOptions, Finding
from spotchange.comparison.photos.judging import SMALLEST, PhotoVerdict, judge_photos
from spotchange.everyday.kinds import OBJECT_KINDS, WHOLE_KINDS
from spotchange.everyday.language.telling import told
from spotchange.everyday.language.wording import FRAMES, stated
from spotchange.everyday.recognition.account import SURE, UNSEEN, Account, SeenChange
from spotchange.everyday.recognition.recognisers import Recognisers
from spotchange.everyday.recognition.signs import LOCAL, whole_signs
from spotchange.everyday.recognition.traces import Mask, Pixels
from spotchange.everyday.recognition.whole import LIGHT, OF_LIGHT, borne_out, whole_change
from spotchange.results import Box, CaptionResult, Region

SOURCE = "recognition"
NAME = "everyday"
_DENIED = "pixels differ beyond noise in places; the model takes that for light or blur"
_UNSHOWN = "the model sees a change at a place that differs no more than others"
_DOUBT = 0.1  # score below which the model contradicts the comparison: where pixels differ by light or noise alone
_STANDS_OUT = 6.0  # times as much as places usually differ: at night five levels are a lot, in coarse JPEG nothing
_USUAL = 0.5  # levels that places differ by at least
_PLAIN = 16.0  # levels that stand out anywhere


class PhotoAnswerer:
    """Answers pairs of photos. The recognisers are loaded when the first changed pair comes."""

    def __init__(self, recognisers: Recognisers, model: Callable[..., PhotoView]) -> None:
        self._recognisers, self._model = recognisers, model
        self._beside = ThreadPoolExecutor(max_workers=self.workers, thread_name_prefix="photo-model")

    @property
    def card(self) -> AnswererCard:
        return AnswererCard(
            name=NAME,
            architecture="aligned comparison, CLIP4IDC on EfficientNet-lite0, SSDLite",
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
        masked = without_ignored(pair, options.ignore)
        if masked.identical:
            answer = answer_identical(pair)
            return replace(answer, result=replace(answer.result, model=NAME))
        if min(*pair.before.size, *pair.after.size) < SMALLEST:
            return answer_from_pixels(pair, options, ComparisonOptions(preset="exact"))
        seen = self._beside.submit(self._model, masked, threshold=options.threshold)
        verdict = judge_photos(pair.before.pixels, pair.after.pixels, options.ignore)
        view = seen.result()
        whole = _whole(pair, verdict, view)
        same_shot = equal_pixels(pair) >= SAME_SHOT
        sees_thing = view.changed and view.kind in OBJECT_KINDS
        if whole is not None:
            result = _result(stated(whole), whole, (), max(view.score, 1 - _DOUBT))
        elif verdict.changed and (view.score >= _DOUBT or same_shot or not verdict.aligned):
            changes = self._changes(pair, verdict.after, verdict.mask, verdict.findings, view)
            kind = changes[0].kind if changes else None
            regions = _regions(changes, verdict.findings, pair.before.size)
            result = _result(told(changes, pair.before.size), kind, regions, max(view.score, 1 - _DOUBT))
        elif sees_thing and not same_shot and shown_faintly(verdict, view):
            findings = [_hottest(view, pair)]
            changes = self._changes(pair, verdict.after, np.ones_like(verdict.mask), findings, view)
            regions = _regions(changes, findings, pair.before.size)
            result = _result(told(changes, pair.before.size), changes[0].kind, regions, view.score)
        elif same_shot or not verdict.aligned:
            # No camera lies between images that agree to the last bit: what differs, however little, was done. And
            # views that cannot be brought together are not called unchanged.
            return answer_from_pixels(pair, options, ComparisonOptions(preset="exact"))
        else:
            # How it was photographed is no change of what is seen, but worth a word.
            how = [each.sentence for each in verdict.findings if each.kind not in LOCAL]
            result = _result("; ".join([FRAMES["none"][0], *how]), "none", (), min(view.score, _DOUBT))
        doubts = () if result.changed else ((_DENIED, verdict.changed), (_UNSHOWN, sees_thing))
        pixels = int(np.count_nonzero(verdict.mask))
        result = replace(
            result,
            warnings=(*verdict.notes, *(said for said, applies in doubts if applies)),
            seconds=round(time.perf_counter() - started, 4),
            preset="photos",
            findings=tuple(verdict.findings),
            diff_pixels=pixels,
            diff_ratio=pixels / max(1, verdict.mask.size),
        )
        return Answer(result=result, heat=agreed_heat(verdict, view) if verdict.changed else view.heat, pair=pair)

    def _changes(
        self, pair: ImagePair, after: Pixels, mask: Mask, findings: Sequence[Finding], view: PhotoView
    ) -> list[SeenChange]:
        laid = Image.fromarray(after)
        return Account(pair.before.pil, laid, mask, findings, self._recognisers, view.kinds, view.heat).changes()


def _whole(pair: ImagePair, verdict: PhotoVerdict, view: PhotoView) -> str | None:
    """A change of the whole image: by rule, or one that the model sees and the images bear out."""
    signs = whole_signs(pair.before.pixels, pair.after.pixels, verdict)
    by_rule = whole_change(signs, verdict)
    # How sharp a photo is depends on its encoder and on its size, too: blurred is what the model takes for that.
    doubted = by_rule == "blur" and view.kind != "blur"
    if by_rule is not None and not doubted and (view.score >= _DOUBT or by_rule not in LIGHT):
        return by_rule
    if not view.changed or view.kind not in WHOLE_KINDS:
        return None
    sure = view.kind in OF_LIGHT and view.kinds[view.kind] >= SURE
    return view.kind if sure or borne_out(view.kind, signs) else None


def shown_faintly(verdict: PhotoVerdict, view: PhotoView) -> bool:
    """Whether the place that the model points at stands out, though not by enough for the comparison.

    Coarse JPEG looks like a change to the model now and then, but differs everywhere; at night the comparison is blind.
    """
    size = verdict.levels.shape[::-1]
    heat = cv2.resize(view.heat.max(axis=0).astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    there = float(np.quantile(verdict.levels[heat >= 0.5 * heat.max()], 0.9))
    return there >= min(_PLAIN, _STANDS_OUT * max(_USUAL, float(np.median(verdict.levels))))


def _hottest(view: PhotoView, pair: ImagePair) -> Finding:
    """The place that the model points at, for a change too faint for the comparison."""
    heat = view.heat.max(axis=0)
    level = 0.5 * float(heat.max())
    places = boxes_of(heat, heat >= level, image="before", size=pair.before.size)
    left, top, width, height = places[0].box
    box: Box = (left, top, width, height)
    return Finding(kind="replaced", sentence="", boxes_before=(box,), boxes_after=(box,), pixels=width * height)


def _result(caption: str, kind: str | None, regions: tuple[Region, ...], score: float) -> CaptionResult:
    changed = kind != "none"
    return CaptionResult(
        caption=caption,
        changed=changed,
        change_score=round(score, 4),
        change_type=kind,
        regions=regions,
        source=SOURCE,
        model=NAME,
    )


def agreed_heat(verdict: PhotoVerdict, view: PhotoView) -> Heat:
    """Both images' heat (2, rows, columns): where the comparison finds a change, most where the model points there too.

    Highest in the middle of a large changed place that the model sees; of places it does not see, of the largest.
    """
    height, width = verdict.mask.shape
    scale = HEAT_CELLS / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    share = cv2.resize(verdict.mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    spread = cv2.GaussianBlur(share, (0, 0), 2.5, borderType=cv2.BORDER_CONSTANT)
    pointed = cv2.resize(view.heat.max(axis=0).astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    heat = np.where(share > 0, 0.35 + 0.65 * spread / max(float(spread.max()), 1e-9), 0)
    heat *= UNSEEN + (1 - UNSEEN) * pointed
    return np.stack([(heat / max(float(heat.max()), 1e-9)).astype(np.float32)] * 2)


def _regions(changes: Sequence[SeenChange], found: Sequence[Finding], size: tuple[int, int]) -> tuple[Region, ...]:
    """The places of what is told, else all that was found."""
    regions = []
    for change in changes:
        for image, corners in (("before", change.before), ("after", change.after)):
            if corners is not None:
                left, top, right, bottom = (round(float(each)) for each in corners * np.array(size * 2))
                box: Box = (left, top, max(1, right - left), max(1, bottom - top))
                regions.append(Region(image=image, box=box, score=1.0))  # type: ignore[arg-type]
    if not regions:
        for finding in found:
            regions += [Region(image="before", box=box, score=1.0) for box in finding.boxes_before]
            regions += [Region(image="after", box=box, score=1.0) for box in finding.boxes_after]
    return tuple(regions)
