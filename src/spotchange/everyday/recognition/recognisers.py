"""The recognisers that ship, each loaded when it is first asked: the classifier, where it looks, and all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.errors import ModelError
from spotchange.everyday.recognition.detector import Detected, Detector, overlaps
from spotchange.everyday.recognition.evidence import Chances, Evidence

FOLDER = "everyday-recognisers"
DETECTOR, CLASSIFIER = "detector.onnx", "classifier.onnx"
SIDE = 224  # pixels of the square the classifier looks at
_SMALLEST = 24  # pixels of a window's side

Floats = npt.NDArray[np.float32]
Box = npt.NDArray[np.floating]  # left, top, right, bottom, as parts of the image


def recognisers_folder() -> Path:
    """Where the networks lie."""
    folder = Path(str(resources.files("spotchange"))) / "assets" / FOLDER
    if not (folder / DETECTOR).exists():
        raise ModelError("this build of spotchange carries no recognisers of everyday things")
    return folder


@dataclass(frozen=True, eq=False)
class Seen:
    """Scores of windows."""

    classes: Floats  # (windows, 1000): ImageNet's
    nouns: Floats  # (windows, known nouns + 1): of the head's own nouns; the last is "nothing"


class Classifier:
    """EfficientNet-lite0, trained on ImageNet, with a second head for our own nouns. Safe to call from threads."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, windows: Sequence[Image.Image]) -> Seen:
        """Scores of images of single things."""
        batch = np.stack([prepared(each) for each in windows])
        return Seen(*self._session.run(["classes", "nouns"], {"pictures": batch}))


class Recognisers:
    """Detector, classifier and what their scores mean. Safe to call from several threads."""

    def __init__(self, folder: Path | None = None, *, threads: int | None = None) -> None:
        self._folder = folder or recognisers_folder()
        self._threads = threads

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence.read(self._folder)

    @cached_property
    def detect(self) -> Detector:
        return Detector(self._session(DETECTOR))

    @cached_property
    def _classify(self) -> Classifier:
        return Classifier(self._session(CLASSIFIER))

    def _session(self, name: str) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the comparison needs the cores too
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        path = self._folder / name
        try:
            return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no common class for a file it cannot read
            raise ModelError(f"{path} cannot be loaded", hint=str(error).splitlines()[0]) from None

    def look(self, places: Sequence[tuple[Image.Image, Detected, Box]]) -> Chances:
        """(places, nouns + 1): what each place of an image shows, given what was detected in that image."""
        seen = self._classify([window(image, box) for image, _, box in places])
        near = np.stack([detected_near(found, box) for _, found, box in places])
        return self.evidence.chances(seen.nouns, seen.classes, near)


def window(image: Image.Image, box: Box, *, room: float = 1.3) -> Image.Image:
    """A square round a box (left, top, right, bottom as parts), wider by `room`, moved into the image."""
    size = np.array(image.size, np.float64)
    low, high = box[:2] * size, box[2:] * size
    sides = np.minimum(max(float((high - low).max()) * room, _SMALLEST), size)
    start = np.clip((low + high) / 2 - sides / 2, 0, size - sides)
    left, top, right, bottom = (round(float(each)) for each in (*start, *(start + sides)))
    return image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def detected_near(found: Detected, box: Box) -> Floats:
    """(91,): for every kind the best score of a box that covers about the same place, weighed by how well it does."""
    best = np.zeros(91, np.float32)
    if len(found.scores):
        fit = np.clip((overlaps(np.asarray(box, np.float32), found.boxes) - 0.25) / 0.35, 0, 1)
        np.maximum.at(best, found.classes, found.scores * fit)
    return best


def prepared(window: Image.Image) -> Floats:
    """(3, side, side) in the range the weights know."""
    small = window.resize((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=3.0)
    return np.asarray((np.asarray(small, np.float32).transpose(2, 0, 1) - 127) / 128, np.float32)
