"""The gate: which of the shipped answerers knows a pair. Table-top scenes, everyday pictures, or pixels alone.

The decision costs a thumbnail; only the model that is chosen gets loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.answering.ignore import without_heat
from spotchange.answering.interface import Answer, Answerer, AnswererCard, CaptionOptions
from spotchange.answering.obvious import OBVIOUS, difference_map
from spotchange.answering.pair import ImagePair
from spotchange.answering.pixels import answer_from_pixels, equal_neighbours
from spotchange.answering.regions import boxes_of, places
from spotchange.errors import SpotchangeError

SCENES, EVERYDAY, PIXELS = "scenes", "everyday", "pixels"
_THUMBNAIL = (12, 8)
_PAGE = 0.72  # of neighbouring pixels exactly equal: pages and drawings have more, even smooth JPEG photos less
MISSED = "the model saw no change here, the pixels did: look at the marked places"


@dataclass(frozen=True, kw_only=True)
class SceneLikeness:
    """A linear judgement of a thumbnail: does it show a table-top scene?"""

    weights: npt.NDArray[np.float32]
    bias: float
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]

    def probability(self, picture: Image.Image) -> float:
        """From 0 to 1."""
        value = float(((features(picture) - self.mean) / self.scale) @ self.weights + self.bias)
        return float(1 / (1 + np.exp(-np.clip(value, -30, 30))))


def features(picture: Image.Image) -> npt.NDArray[np.float32]:
    """A thumbnail's brightness and colourfulness, cell by cell, and how much neighbours differ."""
    small = np.asarray(picture.resize(_THUMBNAIL, Image.Resampling.BOX, reducing_gap=2.0), np.float32) / 255
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


def route(pair: ImagePair) -> str:
    """Who answers a pair: scenes, everyday or pixels."""
    judge = scene_likeness()
    likeness = (judge.probability(pair.before.pil) + judge.probability(pair.after.pil)) / 2
    if likeness >= 0.5:
        return SCENES
    page = all(equal_neighbours(image) >= _PAGE for image in (pair.before, pair.after))
    return PIXELS if page else EVERYDAY


class GatedAnswerer:
    """Every pair to whoever knows it; a change that the pixels show and the everyday model misses is still told."""

    def __init__(self, scenes: Callable[[], Answerer], everyday: Callable[[], Answerer], *, name: str) -> None:
        self._makers = {SCENES: scenes, EVERYDAY: everyday}
        self._loaded: dict[str, Answerer] = {}
        self._name = name
        self._threads: int | None = None

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
        for who in dict.fromkeys(routes):
            places = [place for place, each in enumerate(routes) if each == who]
            part = [pairs[place] for place in places]
            found |= dict(zip(places, self._answered(who, part, options), strict=True))
        return [found[place] for place in range(len(pairs))]

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
        if who not in self._loaded:
            self._loaded[who] = self._makers[who]()
            if self._threads is not None:
                self._loaded[who].set_threads(self._threads)
        return self._loaded[who]


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
