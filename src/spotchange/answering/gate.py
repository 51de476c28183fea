"""The gate: which of the shipped answerers knows a pair. Table-top scenes, everyday photos, or pixels alone.

The decision costs a thumbnail; only what is chosen gets loaded. What looks like a scene from afar and is unfamiliar to
the scene model is answered like every other image; so is what it hardly knows and has another light than scenes have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.interface import Answer, Answerer, AnswererCard, CaptionOptions
from spotchange.answering.missed import told_if_missed
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import FLAT_SHARE, SAME_SHOT, answer_from_pixels, equal_neighbours, equal_pixels
from spotchange.errors import SpotchangeError

SCENES, EVERYDAY, PIXELS = "scenes", "everyday", "pixels"
Floats = npt.NDArray[np.float32]

_THUMBNAIL = (12, 8)
_SCENE = 0.2  # likeness from which on the scene model is asked; it knows what is unfamiliar to it
_HARDLY_KNOWN = 0.001  # familiarity below which a pair lies farther out than all that the scene model was fitted to:
# nearly all pairs of scenes without a change do, by how features of such pairs lie, and so do the photos that pass
OTHER_LIGHT = 12.0  # distance; images of scenes reach 6, photos whose thumbnails resemble them begin at 24
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


@dataclass(frozen=True, kw_only=True)
class SceneLight:
    """How light lies on generated table-top scenes: what is lit otherwise is none, whatever its thumbnail resembles."""

    mean: Floats  # (numbers,)
    whiten: Floats  # (numbers, numbers)

    def distance(self, image: Image.Image) -> float:
        """From the mean of scenes: 1 on average over them, squared and in their own spread (Mahalanobis)."""
        return float((((light_numbers(image) - self.mean) @ self.whiten) ** 2).mean())


def light_numbers(image: Image.Image) -> Floats:
    """How bright, how smooth and how grey a thumbnail is, as a whole, above and below."""
    small = np.asarray(image.resize(_GROUND, Image.Resampling.BOX, reducing_gap=2.0), np.float32)
    bright, colourful = small.mean(axis=2), small.max(axis=2) - small.min(axis=2)
    steps = np.maximum(np.abs(np.diff(bright, axis=1))[:-1], np.abs(np.diff(bright, axis=0))[:, :-1])
    grey, rows, part = bright[colourful < 30], np.median(bright, axis=1), len(bright) // 4
    numbers = [bright.mean(), *np.quantile(bright, (0.02, 0.1, 0.5, 0.9, 0.98)), grey.std() if grey.size else 0.0]
    numbers += [*((steps < limit).mean() for limit in (4, 8, 16)), np.median(steps), np.abs(np.diff(rows)).max()]
    numbers += [np.median(colourful), np.quantile(colourful, 0.9), (colourful < 30).mean()]
    for where in (slice(part), slice(-part, None)):
        numbers += [np.median(bright[where]), np.median(colourful[where]), (steps[where] < 6).mean()]
    return np.array(numbers, np.float32)


@cache
def scene_likeness() -> SceneLikeness:
    """The judgement that ships."""
    values = _shipped("gate.json")
    arrays = {name: np.array(values[name], np.float32) for name in ("weights", "mean", "scale")}
    return SceneLikeness(bias=float(values["bias"]), **arrays)


@cache
def scene_light() -> SceneLight:
    """The light that ships (benchmarks/gate_light.py)."""
    return SceneLight(**{name: np.array(value, np.float32) for name, value in _shipped("gate_light.json").items()})


def _shipped(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(resources.files("spotchange.answering").joinpath(name).read_text("utf-8"))
    return values


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


def passed_by_a_hair(pair: ImagePair, familiarity: float) -> bool:
    """Whether the scene model hardly knows a pair, and its light is no scene's: a photo that resembles one."""
    images = (pair.before.pil, pair.after.pil)
    return familiarity < _HARDLY_KNOWN and sum(map(scene_light().distance, images)) / len(images) > OTHER_LIGHT


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
            if routes[place] == SCENES and (_unfamiliar(found[place]) or _mistaken(found[place], pair)):
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
        return [each if isinstance(each, SpotchangeError) else told_if_missed(each, options) for each in answers]

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


def _mistaken(answer: Answer | SpotchangeError, pair: ImagePair) -> bool:
    """Whether the scene model answered a photo."""
    familiarity = answer.result.familiarity if isinstance(answer, Answer) else None
    return familiarity is not None and passed_by_a_hair(pair, familiarity)
