"""The gate: which of the shipped answerers knows a pair. Table-top scenes, everyday photos, or pixels alone.

The decision costs a thumbnail; only what is chosen gets loaded. What looks like a scene from afar and is unfamiliar to
the scene model is answered like every other image.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.ignore import without_heat
from spotchange.answering.interface import Answer, Answerer, AnswererCard, CaptionOptions
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import FLAT_SHARE, SAME_SHOT, answer_from_pixels, equal_neighbours, equal_pixels
from spotchange.answering.regions import boxes_of, places
from spotchange.errors import SpotchangeError

SCENES, EVERYDAY, PIXELS = "scenes", "everyday", "pixels"
_THUMBNAIL = (12, 8)
_SCENE = 0.2  # likeness from which on the scene model is asked; it knows what is unfamiliar to it
_PAGE = 0.72  # of neighbouring pixels exactly equal: pages and drawings have more, even smooth JPEG photos less
_PLAUSIBLE = 0.35  # likeness; no real scene came below 0.41
_FLAT = 0.9  # of neighbouring pixels exactly equal: rendered scenes stay below even as strongly compressed JPEG
_GROUND = (60, 40)  # cells of the thumbnail in which a drawn ground is told from a lit one
_HARDLY = 0.4  # levels by which neighbouring cells of a drawn ground differ at most along its one direction
# (right, down): a fill or a ramp is the same along one of these directions nearly everywhere. Under lamps no ground is:
# of 723 images of scenes, the shares of such cells are at most 0.64 along rows, 0.39 along columns, 0.37 otherwise.
_OBLIQUE = ((1, 1), (2, 1), (1, 2), (3, 1), (1, 3), (3, 2), (2, 3))
_DIRECTIONS = (
    (1, 0, 0.68),
    (0, 1, 0.5),
    *((right, sign * down, 0.42) for right, down in _OBLIQUE for sign in (1, -1)),
)
OBVIOUS = 0.13  # of the range from black to white; no control pair came near (docs/experiments)
_SIDE = 72
_REACH = 3  # pixels of the small image that a camera may have moved
_PATCH = 7  # pixels of the small image that are averaged
MISSED = "the model saw no change here, the pixels did: look at the marked places"

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class SceneLikeness:
    """A linear judgement of a thumbnail: does it show a table-top scene?"""

    weights: npt.NDArray[np.float32]
    bias: float
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]

    def probability(self, image: Image.Image) -> float:
        """From 0 to 1."""
        value = float(((features(image) - self.mean) / self.scale) @ self.weights + self.bias)
        return float(1 / (1 + np.exp(-np.clip(value, -30, 30))))


def features(image: Image.Image) -> npt.NDArray[np.float32]:
    """A thumbnail's brightness and colourfulness, cell by cell, and how much neighbours differ."""
    small = np.asarray(image.resize(_THUMBNAIL, Image.Resampling.BOX, reducing_gap=2.0), np.float32) / 255
    colourful = small.max(axis=2) - small.min(axis=2)
    bright = small.mean(axis=2)
    warm = small[..., 0] - small[..., 2]
    steps = np.abs(np.diff(bright, axis=1))
    return np.concatenate([bright.ravel(), colourful.ravel(), warm.ravel(), steps.ravel()]).astype(np.float32)


@cache
def scene_likeness() -> SceneLikeness:
    """The judgement that ships."""
    text = resources.files("spotchange.answering").joinpath("gate.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    arrays = {name: np.array(values[name], np.float32) for name in ("weights", "mean", "scale")}
    return SceneLikeness(bias=float(values["bias"]), **arrays)


def plausible_scene(pair: ImagePair) -> bool:
    """Whether a pair can be a table-top scene at all: not flat, not on a drawn ground, not unlike one in its thumbnail.

    Generous, so that no scene is lost (benchmarks/gate.py); the model's own familiarity has the last word.
    """
    images, judge = (pair.before, pair.after), scene_likeness()
    likeness = sum(judge.probability(image.pil) for image in images) / 2
    if likeness < _PLAUSIBLE or max(equal_neighbours(image) for image in images) > _FLAT:
        return False
    return not all(drawn_ground(image.pil) for image in images)


def drawn_ground(image: Image.Image) -> bool:
    """Whether most of an image is one colour or a straight ramp of two, blurred and compressed or not.

    Light falls off in every direction and things cast shadows, so that a rendered or photographed ground has no
    direction along which it stays the same; cells average the noise of an encoder away.
    """
    small = np.asarray(image.resize(_GROUND, Image.Resampling.BOX, reducing_gap=2.0), np.float32).mean(axis=2)
    height, width = small.shape
    for right, down, limit in _DIRECTIONS:
        one = small[max(0, down) : height + min(0, down), right:]
        other = small[max(0, -down) : height + min(0, -down), : width - right]
        if float((np.abs(one - other) < _HARDLY).mean()) > limit:
            return True
    return False


def route(pair: ImagePair) -> str:
    """Who answers a pair: scenes, everyday or pixels."""
    judge = scene_likeness()
    likeness = (judge.probability(pair.before.pil) + judge.probability(pair.after.pil)) / 2
    return SCENES if likeness >= _SCENE else _photo_or_page(pair)


def _photo_or_page(pair: ImagePair) -> str:
    """Everyday or pixels: pages and drawings are flat; a page with photos in it is partly flat, and partly the same."""
    flat = min(equal_neighbours(image) for image in (pair.before, pair.after))
    page = flat >= _PAGE or (flat >= FLAT_SHARE and equal_pixels(pair) >= SAME_SHOT)
    return PIXELS if page else EVERYDAY


class GatedAnswerer:
    """Every pair to whoever knows it; a change that the pixels show and the everyday model misses is still told."""

    def __init__(self, scenes: Callable[[], Answerer], everyday: Callable[[], Answerer], *, name: str) -> None:
        self._makers = {SCENES: scenes, EVERYDAY: everyday}
        self._loaded: dict[str, Answerer] = {}
        self._name = name
        self._threads: int | None = None
        self._loading = Lock()

    @property
    def card(self) -> AnswererCard:
        return AnswererCard(name=self._name, architecture="gate: scenes, everyday or pixels")

    @property
    def workers(self) -> int:
        return 1

    def set_threads(self, count: int) -> None:
        self._threads = count
        for answerer in self._loaded.values():
            answerer.set_threads(count)

    def answer(self, pairs: Sequence[ImagePair], options: CaptionOptions) -> list[Answer | SpotchangeError]:
        """One answer per pair, in order; `result.model` says who gave it."""
        routes = [route(pair) for pair in pairs]
        found: dict[int, Answer | SpotchangeError] = {}
        self._answer_part(SCENES, routes, pairs, options, found)
        for place, pair in enumerate(pairs):
            if routes[place] == SCENES and _unfamiliar(found[place]):
                routes[place] = _photo_or_page(pair)
        self._answer_part(EVERYDAY, routes, pairs, options, found)
        self._answer_part(PIXELS, routes, pairs, options, found)
        return [found[place] for place in range(len(pairs))]

    def _answer_part(
        self,
        who: str,
        routes: list[str],
        pairs: Sequence[ImagePair],
        options: CaptionOptions,
        found: dict[int, Answer | SpotchangeError],
    ) -> None:
        chosen = [place for place, each in enumerate(routes) if each == who]
        if chosen:
            answers = self._answered(who, [pairs[place] for place in chosen], options)
            found.update(zip(chosen, answers, strict=True))

    def _answered(
        self, who: str, pairs: Sequence[ImagePair], options: CaptionOptions
    ) -> Sequence[Answer | SpotchangeError]:
        if who == PIXELS:
            return [answer_from_pixels(pair, options) for pair in pairs]
        answers = self._get(who).answer(pairs, options)
        if who == SCENES:
            return answers
        return [each if isinstance(each, SpotchangeError) else _with_missed(each, options) for each in answers]

    def _get(self, who: str) -> Answerer:
        with self._loading:
            if who not in self._loaded:
                self._loaded[who] = self._makers[who]()
                if self._threads is not None:
                    self._loaded[who].set_threads(self._threads)
            return self._loaded[who]

    def load(self) -> None:
        """Load all now, so that no later pair waits for it."""
        for who in self._makers:
            self._get(who)

    @property
    def runtime(self) -> Any:
        """The scene model's, which alone can rank sentences."""
        return getattr(self._get(SCENES), "runtime", None)


def _unfamiliar(answer: Answer | SpotchangeError) -> bool:
    """Whether the scene model left a pair to the pixels."""
    return isinstance(answer, Answer) and answer.result.source == "pixels" and not answer.result.identical


def _with_missed(answer: Answer, options: CaptionOptions) -> Answer:
    """The answer, or what the pixels show where the model calls a pair unchanged that is obviously not the same."""
    if answer.result.changed or answer.result.identical or options.threshold is not None:
        return answer
    apart = without_heat(np.stack([difference_map(answer.pair)] * 2), answer.pair.before.size, options.ignore)
    if apart.max() < OBVIOUS:
        return answer
    heat = np.clip(apart / (2 * OBVIOUS), 0, 1).astype(np.float32)
    regions = tuple(
        region
        for image, side, size in (("before", 0, answer.pair.before.size), ("after", 1, answer.pair.after.size))
        for region in boxes_of(heat[side], heat[side] >= 0.5, image=image, size=size)  # type: ignore[arg-type]
    )
    where = " and ".join(places([region for region in regions if region.image == "after"], answer.pair.after.size)[:3])
    result = replace(
        answer.result,
        caption=f"something has changed: {where}",
        changed=True,
        change_type=None,
        regions=regions,
        source="pixels",
        warnings=(*answer.result.warnings, MISSED),
    )
    return replace(answer, result=result, heat=heat)


def difference_map(pair: ImagePair) -> Floats:
    """(side, side): how much of each place has no match near it in the other image, from 0 to 1.

    Both images are made small and equally bright; what is left, averaged over a patch, is large only where something
    else is seen: a difference that no camera, lamp or encoder explains, for photos that a model calls unchanged.
    """
    before, after = (_small(image.pil) for image in (pair.before, pair.after))
    after = _equally_bright(after, before)
    one_way, other_way = _unmatched(before, after), _unmatched(after, before)
    return _averaged(np.maximum(one_way, other_way))


def _small(image: Image.Image) -> Floats:
    small = np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.BOX, reducing_gap=2.0), np.float32)
    return small / np.float32(255)


def _equally_bright(image: Floats, like: Floats) -> Floats:
    """Gain and offset of each channel, by the middle and the spread, which a change of one thing hardly moves."""
    for channel in range(3):
        low, middle, high = np.quantile(image[..., channel], (0.1, 0.5, 0.9))
        to_low, to_middle, to_high = np.quantile(like[..., channel], (0.1, 0.5, 0.9))
        gain = np.clip((to_high - to_low) / max(high - low, 1e-3), 0.5, 2.0)
        image = image.copy()
        image[..., channel] = (image[..., channel] - middle) * gain + to_middle
    return image


def _unmatched(one: Floats, other: Floats) -> Floats:
    padded = np.pad(other, ((_REACH, _REACH), (_REACH, _REACH), (0, 0)), mode="edge")
    best = np.full(one.shape[:2], np.inf, np.float32)
    for down in range(2 * _REACH + 1):
        for across in range(2 * _REACH + 1):
            near = padded[down : down + one.shape[0], across : across + one.shape[1]]
            best = np.minimum(best, np.abs(one - near).mean(axis=2))
    return best


def _averaged(values: Floats) -> Floats:
    summed = np.cumsum(np.cumsum(np.pad(values, ((1, 0), (1, 0))), axis=0), axis=1)
    step = _PATCH
    means = summed[step:, step:] - summed[:-step, step:] - summed[step:, :-step] + summed[:-step, :-step]
    return np.asarray(means / step**2, np.float32)
