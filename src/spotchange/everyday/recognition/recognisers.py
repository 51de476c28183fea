"""What names things: a detector and the trained model's second look, each loaded when it is first asked"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from spotchange.errors import ModelError
from spotchange.everyday.language.naming import WINDOW
from spotchange.everyday.recognition.detector import Detected, Detector, overlaps
from spotchange.everyday.recognition.evidence import COCO, Chances, Evidence

FOLDER = "everyday-recognisers"
DETECTOR = "detector.onnx"

Floats = npt.NDArray[np.float32]
Box = npt.NDArray[np.floating]  # left, top, right, bottom, as parts of the image
Window = tuple[float, float, float, float]  # middle, width and height, as parts of the image
Namer = Callable[[Sequence[Image.Image]], Floats]  # of windows of our own trained model: scores (windows, nouns + 1)


def recognisers_folder() -> Path:
    """Where the networks lie."""
    folder = Path(str(resources.files("spotchange"))) / "assets" / FOLDER
    if not (folder / DETECTOR).exists():
        raise ModelError("this build of spotchange carries no recognisers of everyday things")
    return folder


class Spot(NamedTuple):
    """A place of an image that is looked at."""

    image: Image.Image
    detected: Detected  # in that image
    box: Box
    second: Window  # where the second look goes


class Recognisers:
    """A detector, the trained model's second look and what their scores mean. Safe to call from several threads."""

    def __init__(self, namer: Namer, *, folder: Path | None = None, threads: int | None = None) -> None:
        self._namer = namer
        self._folder = folder or recognisers_folder()
        self._threads = threads

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence.read(self._folder)

    @cached_property
    def detect(self) -> Detector:
        return Detector(self._session())

    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the comparison needs the cores too
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        path = self._folder / DETECTOR
        try:
            return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no common class for a file it cannot read
            raise ModelError(f"{path} cannot be loaded", hint=str(error).splitlines()[0]) from None

    def look(self, spots: Sequence[Spot]) -> Chances:
        """(spots, nouns + 1): what each place of an image shows, given what was detected in that image."""
        near = np.stack([detected_near(each.detected, each.box) for each in spots])
        return self.evidence.chances(self._namer([cut_window(each.image, each.second) for each in spots]), near)


def cut_window(image: Image.Image, window: Window) -> Image.Image:
    """The window of an image, at the second look's size; beyond the edge the image goes on as in a mirror."""
    x, y, width, height = window
    size = np.array(image.size * 2)
    box = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2]) * size
    reach = np.concatenate([np.floor(box[:2]), np.ceil(box[2:])]).astype(int)
    seen = np.clip(reach, 0, size)
    if (reach != seen).any():
        left, top, right, bottom = np.abs(reach - seen).tolist()
        part = np.pad(np.asarray(image.crop(seen.tolist())), ((top, bottom), (left, right), (0, 0)), mode="symmetric")
        image, box = Image.fromarray(part), box - np.tile(reach[:2], 2)
    return image.resize((WINDOW, WINDOW), Image.Resampling.BICUBIC, box=tuple(box.tolist()), reducing_gap=3.0)


def detected_near(found: Detected, box: Box) -> Floats:
    """(91,): for every kind the best score of a box that covers about the same place, weighed by how well it does."""
    best = np.zeros(COCO, np.float32)
    if len(found.scores):
        fit = np.clip((overlaps(np.asarray(box, np.float32), found.boxes) - 0.25) / 0.35, 0, 1)
        np.maximum.at(best, found.classes, found.scores * fit)
    return best
