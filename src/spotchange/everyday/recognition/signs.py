"""Numbers about a pair of photos that tell kinds of change apart: of the whole, and of the two largest changed places.

Each has a name, so that what was fitted on them (`kind_model.py`) finds its own whatever is added later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from spotchange.comparison.photos.judging import PhotoVerdict
from spotchange.everyday.recognition.elsewhere import ALL, FEW, Corners, Elsewhere
from spotchange.everyday.recognition.evidence import Chances
from spotchange.everyday.recognition.outlines import OUTLINE_SIGNS, outline_signs
from spotchange.everyday.recognition.traces import Pixels, Traces

LOCAL = ("moved", "appeared", "disappeared", "recoloured", "replaced")  # findings that have a place
PLACES = 2  # that are looked at

Signs = dict[str, float]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Place:
    """A changed place and what the classifier sees there, before and after."""

    kind: str  # the comparison's finding
    pixels: int
    boxes: tuple[Corners, Corners]
    chances: Chances  # (2, nouns + 1)
    features: Floats  # (2, channels)

    @property
    def box(self) -> Corners:
        """All of it; where it moved, what it left."""
        if self.kind == "moved":
            return self.boxes[0]
        both = np.stack(self.boxes)
        return np.concatenate([both[:, :2].min(axis=0), both[:, 2:].max(axis=0)])


def whole_signs(before: Pixels, after: Pixels, verdict: PhotoVerdict) -> Signs:
    """How the images differ as a whole: light, colours, sharpness, view, and how much of them changed."""
    one, seen, laid = (_small(each) for each in (before, after, verdict.after))
    grey = [each.mean(axis=2) for each in (one, seen, laid)]
    gain, offset, error = _light(one, laid)
    colourful = [float(np.ptp(each, axis=2).mean()) + 0.005 for each in (one, seen)]
    detail = [_detail(each) + 0.3 for each in (before, after)]
    local = [each for each in verdict.findings if each.kind in LOCAL]
    sizes = [*sorted((each.pixels for each in local), reverse=True), 0, 0]
    kinds = {each.kind for each in verdict.findings}
    signs = {
        "straight": _correlation(grey[0], grey[1]),
        "mirrored": _correlation(grey[0], grey[1][:, ::-1]),
        "aligned": _correlation(grey[0], grey[2]),
        "gain": float(np.log(gain).mean()),
        "gain apart": float(np.ptp(np.log(gain))),
        "offset": float(offset.mean()),
        "red": float(offset[0] - offset.mean()),
        "green": float(offset[1] - offset.mean()),
        "blue": float(offset[2] - offset.mean()),
        "light error": float(np.log(error + 0.003)),
        "brighter": float(np.log((seen.mean() + 0.02) / (one.mean() + 0.02))),
        "colourful": float(np.log(colourful[1] / colourful[0])),
        "colourful before": colourful[0],
        "detail": float(np.log(detail[1] / detail[0])),
        "detail before": float(np.log(detail[0])),
        "zoom": float(np.log(max(verdict.zoom, 0.1))),
        "camera": float("camera" in kinds),
        "misaligned": float("misaligned" in kinds),
        "unsure": float(bool(verdict.notes)),
        "changed": float(verdict.changed),
        "share": float(np.log(verdict.mask.mean() + 0.001)),
        "findings": float(min(len(local), 8)),
        "first": sizes[0] / max(1, sum(sizes)),
        "second": sizes[1] / max(1, sum(sizes)),
    }
    return signs | {kind: float(min(sum(each.kind == kind for each in local), 4)) for kind in LOCAL}


def _small(pixels: Pixels) -> Floats:
    return np.asarray(cv2.resize(pixels, (64, 64), interpolation=cv2.INTER_AREA), np.float32) / np.float32(255)


def _correlation(one: Floats, other: Floats) -> float:
    if one.std() < 0.01 or other.std() < 0.01:
        return 0.0
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def _detail(pixels: Pixels) -> float:
    return float(np.abs(cv2.Laplacian(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F)).mean())


def _light(one: Floats, other: Floats) -> tuple[Floats, Floats, float]:
    """Gain and offset of each channel from before to after, by the four fifths that fit best, and what they leave."""
    first, second = one.reshape(-1, 3), other.reshape(-1, 3)
    keep = np.ones(len(first), bool)
    for _ in range(4):
        a, b = first[keep], second[keep]
        together = ((a - a.mean(axis=0)) * (b - b.mean(axis=0))).mean(axis=0)
        gain = np.clip(together / np.maximum(a.var(axis=0), 1e-5), 0.2, 4)
        offset = b.mean(axis=0) - gain * a.mean(axis=0)
        error = np.abs(second - first * gain - offset).max(axis=1)
        keep = error <= max(float(np.quantile(error, 0.8)), 0.004)
    return gain, offset, float(error[keep].mean())


def place_signs(traces: Traces, places: Sequence[Place]) -> Signs:
    """Of the largest changed places, and whether what left the one came to the other; zeros for those not there."""
    elsewhere = Elsewhere(traces.images, traces.mask)
    signs: Signs = {}
    for number in range(PLACES):
        place = places[number] if number < len(places) else None
        found = _of_place(traces, elsewhere, place, ALL if number == 0 else FEW)
        signs |= {f"{number} {name}": value for name, value in found.items()}
    for name, (first, second) in {"0 to 1": (0, 1), "1 to 0": (1, 0)}.items():
        pair = (places[first], places[second]) if len(places) >= PLACES else None
        signs |= {f"{name} {each}": value for each, value in _carried(traces, pair).items()}
    return signs


def _of_place(traces: Traces, elsewhere: Elsewhere, place: Place | None, searched: Sequence[str]) -> Signs:
    names = [*LOCAL, "area", "aspect", "pixels", "outline", "outline after", "colours", "shape", "fill", "part"]
    names += [*OUTLINE_SIGNS, "empty before", "empty after", "alike", "cosine", "sure before", "sure after"]
    names += [f"{each} {way}" for way in ("on", "back") for each in searched]
    if place is None:
        return dict.fromkeys(["there", *names], 0.0)
    width, height = place.box[2:] - place.box[:2]
    before, after = place.boxes
    named = place.chances[:, :-1] / place.chances[:, :-1].sum(axis=1, keepdims=True)
    signs: Signs = {"there": 1.0} | {kind: float(place.kind == kind) for kind in LOCAL}
    signs |= {
        "area": float(np.log(width * height + 1e-4)),
        "aspect": float(np.log(width / height)),
        "pixels": float(np.log(place.pixels / traces.area + 1e-4)),
        "outline": traces.outline(before),
        "outline after": traces.outline(after),
        "colours": traces.same_colours(before, after),
        "shape": traces.same_shape(place.box),
        "fill": traces.share(place.box),
        "part": traces.part(place.box),
        **outline_signs(traces, place.box),
        "empty before": float(np.log(place.chances[0, -1] + 1e-3)),
        "empty after": float(np.log(place.chances[1, -1] + 1e-3)),
        "alike": float(np.sqrt(named[0] * named[1]).sum()),
        "cosine": _cosine(place.features[0], place.features[1]),
        "sure before": float(named[0].max()),
        "sure after": float(named[1].max()),
    }
    for way, (side, box) in {"on": (0, before), "back": (1, after)}.items():
        signs |= {f"{name} {way}": value for name, value in elsewhere.search(box, side, searched).items()}
    return signs


def _carried(traces: Traces, pair: tuple[Place, Place] | None) -> Mapping[str, float]:
    """How much what was at one place before looks like what is at the other after."""
    if pair is None:
        return dict.fromkeys(("colours", "cosine", "alike", "size", "aspect", "gap"), 0.0)
    old, new = pair[0].boxes[0], pair[1].boxes[1]
    sides = [box[2:] - box[:2] for box in (old, new)]
    areas = sorted(float(each.prod()) for each in sides)
    named = [each / each.sum() for each in (pair[0].chances[0, :-1], pair[1].chances[1, :-1])]
    return {
        "colours": traces.same_colours(old, new),
        "cosine": _cosine(pair[0].features[0], pair[1].features[1]),
        "alike": float(np.sqrt(named[0] * named[1]).sum()),
        "size": areas[0] / max(areas[1], 1e-9),
        "aspect": float(abs(np.log(sides[0][0] / sides[0][1]) - np.log(sides[1][0] / sides[1][1]))),
        "gap": float(np.linalg.norm(old[:2] + old[2:] - new[:2] - new[2:]) / 2),
    }


def _cosine(one: Floats, other: Floats) -> float:
    return float(one @ other / np.sqrt((one @ one) * (other @ other) + 1e-6))
